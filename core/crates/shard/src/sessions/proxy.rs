//! PROXY protocol, version 2: a header in which a load balancer states the source of a connection.
//!
//! <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>, section 2.2. Version 1, which is text, is not
//! supported.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Maximum size of a header with all additions after the addresses; balancers send some 50 bytes.
pub const HEADER_BYTES_MAX: usize = 512;
/// Size of the part that every header begins with, including its length field.
pub const FIXED_BYTES: usize = 16;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const VERSION: u8 = 2;
const COMMAND_LOCAL: u8 = 0;
const COMMAND_PROXY: u8 = 1;
const STREAM_IPV4: u8 = 0x11;
const STREAM_IPV6: u8 = 0x21;

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source of the connection; `None` if the balancer opened it for itself or does not state a source.
    pub source: Option<SocketAddr>,
    /// Length of the header.
    pub bytes: usize,
}

/// Error for bytes that are not the beginning of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a header of the PROXY protocol, version 2, was expected")]
pub struct Malformed;

/// A network of load balancers: its address and the number of significant bits.
pub type Network = (IpAddr, u8);

/// Return whether connections from this address begin with a header.
pub fn is_among(address: SocketAddr, networks: &[Network]) -> bool {
    let bits = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, false),
        IpAddr::V6(address) => (address.to_bits(), true),
    };
    let (address, is_long) = bits(address.ip());
    networks.iter().any(|(network, prefix)| {
        let (network, is_long_too) = bits(*network);
        let others = u32::from(*prefix);
        is_long == is_long_too && (address ^ network).leading_zeros() >= others
    })
}

/// Read a header from the beginning of `bytes`; `None` if it is incomplete.
pub fn read(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(Malformed);
    }
    let Some(&[version_and_command, family, ..]) = bytes.get(12..FIXED_BYTES) else {
        return Ok(None);
    };
    let whole = whole_bytes(bytes);
    if version_and_command >> 4 != VERSION || whole > HEADER_BYTES_MAX {
        return Err(Malformed);
    }
    let Some(addresses) = bytes.get(FIXED_BYTES..whole) else {
        return Ok(None);
    };
    let source = match (version_and_command & 0x0f, family) {
        (COMMAND_PROXY, STREAM_IPV4) => Some(ipv4(addresses).ok_or(Malformed)?),
        (COMMAND_PROXY, STREAM_IPV6) => Some(ipv6(addresses).ok_or(Malformed)?),
        // Other address families contain no IP address.
        (COMMAND_PROXY | COMMAND_LOCAL, _) => None,
        _ => return Err(Malformed),
    };
    Ok(Some(Header {
        source,
        bytes: whole,
    }))
}

/// Return the length of a header of which these bytes have arrived; at least the fixed part.
pub fn whole_bytes(bytes: &[u8]) -> usize {
    match bytes.get(14..FIXED_BYTES) {
        Some(&[high, low]) => FIXED_BYTES + usize::from(u16::from_be_bytes([high, low])),
        _ => FIXED_BYTES,
    }
}

fn ipv4(addresses: &[u8]) -> Option<SocketAddr> {
    let address: [u8; 4] = *addresses.first_chunk()?;
    // Position after both addresses.
    let port = port(addresses.get(8..)?)?;
    Some((IpAddr::V4(Ipv4Addr::from(address)), port).into())
}

fn ipv6(addresses: &[u8]) -> Option<SocketAddr> {
    let address: [u8; 16] = *addresses.first_chunk()?;
    let port = port(addresses.get(32..)?)?;
    let address = IpAddr::V6(Ipv6Addr::from(address)).to_canonical();
    Some((address, port).into())
}

fn port(bytes: &[u8]) -> Option<u16> {
    // The destination port follows; a header cut off in front of it is malformed.
    (bytes.len() >= 4).then(|| u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).expect("short");
        [
            &SIGNATURE[..],
            &[VERSION << 4 | command, family],
            &length.to_be_bytes(),
            addresses,
        ]
        .concat()
    }

    /// Header of a balancer for a client at 203.0.113.7:51234, with and without additions.
    #[test]
    fn a_source_is_read() {
        let addresses = [203, 0, 113, 7, 10, 0, 0, 1, 0xc8, 0x22, 0x1f, 0x9a];
        let plain = header(COMMAND_PROXY, STREAM_IPV4, &addresses);
        let source = Some("203.0.113.7:51234".parse().expect("an address"));
        assert_eq!(read(&plain), Ok(Some(Header { source, bytes: 28 })));
        let with_additions = header(
            COMMAND_PROXY,
            STREAM_IPV4,
            &[&addresses[..], &[4, 0, 1, 0]].concat(),
        );
        assert_eq!(
            read(&[&with_additions[..], b"request"].concat()),
            Ok(Some(Header { source, bytes: 32 }))
        );
    }

    #[test]
    fn a_source_in_ipv6_is_read_in_its_normal_form() {
        let mut addresses = [0; 36];
        addresses[..16].copy_from_slice(&Ipv4Addr::new(203, 0, 113, 7).to_ipv6_mapped().octets());
        addresses[32..34].copy_from_slice(&7_u16.to_be_bytes());
        let bytes = header(COMMAND_PROXY, STREAM_IPV6, &addresses);
        let source = Some("203.0.113.7:7".parse().expect("an address"));
        assert_eq!(read(&bytes), Ok(Some(Header { source, bytes: 52 })));
    }

    #[test]
    fn a_balancer_may_speak_for_itself() {
        let bytes = header(COMMAND_LOCAL, 0, &[]);
        assert_eq!(
            read(&bytes),
            Ok(Some(Header {
                source: None,
                bytes: 16
            }))
        );
    }

    #[test]
    fn balancers_are_known_by_their_networks() {
        let networks: [Network; 3] = [
            ([10, 1, 0, 0].into(), 16),
            ([192, 168, 3, 4].into(), 32),
            ("fd00::".parse().expect("an address"), 8),
        ];
        let is_known = |text: &str| is_among(text.parse().expect("an address"), &networks);
        assert!(is_known("10.1.255.7:1") && is_known("192.168.3.4:1") && is_known("[fd12::1]:1"));
        assert!(is_known("[::ffff:10.1.2.3]:1"));
        assert!(!is_known("10.2.0.1:1") && !is_known("192.168.3.5:1") && !is_known("[fe80::1]:1"));
        assert!(is_among(
            "7.7.7.7:1".parse().expect("an address"),
            &[([0; 4].into(), 0)]
        ));
        assert!(!is_among("7.7.7.7:1".parse().expect("an address"), &[]));
    }

    #[test]
    fn what_is_no_header_is_refused_at_its_first_wrong_byte() {
        assert_eq!(read(b"\x04\0\0\0"), Err(Malformed));
        assert_eq!(read(b"PROXY TCP4 "), Err(Malformed));
        assert_eq!(read(&header(3, STREAM_IPV4, &[0; 12])), Err(Malformed));
        assert_eq!(
            read(&header(COMMAND_PROXY, STREAM_IPV4, &[0; 11])),
            Err(Malformed)
        );
        assert_eq!(read(&header(COMMAND_PROXY, 0, &[0; 497])), Err(Malformed));
        let mut of_version_1 = header(COMMAND_PROXY, 0, &[]);
        of_version_1[12] = 0x11;
        assert_eq!(read(&of_version_1), Err(Malformed));
    }

    proptest! {
        /// A header cut at any position is incomplete, and no input makes reading panic.
        #[test]
        fn a_header_arrives_in_pieces(addresses in prop::collection::vec(any::<u8>(), 12..400), junk in prop::collection::vec(any::<u8>(), 0..64)) {
            let bytes = header(COMMAND_PROXY, STREAM_IPV4, &addresses);
            let whole = read(&bytes);
            prop_assert!(matches!(whole, Ok(Some(_))));
            for cut in 0..bytes.len() {
                prop_assert_eq!(read(&bytes[..cut]), Ok(None));
            }
            let _ = read(&junk);
        }
    }
}
