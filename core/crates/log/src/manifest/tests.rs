use proptest::prelude::*;

use super::*;

fn namespace() -> Namespace {
    Namespace::new(StreamId(1), TopicId(2), PartitionId(3)).expect("small numbers")
}

fn opening((epoch, end): (u64, u64)) -> Opening {
    Opening {
        epoch,
        end: Offset(end),
    }
}

fn manifest() -> Manifest {
    Manifest {
        generation: Generation {
            incarnation: 7,
            purge_epoch: 2,
            partition: Some(namespace()),
        },
        owner: Some(Owner {
            catalog: 0xab,
            namespace: namespace(),
        }),
        dropping: false,
        epoch: 5,
        openings: Some([(2, 17), (5, 45)].map(opening).to_vec()),
        first: Offset(0),
        end: None,
        synced: Some(SyncedEnd {
            segment: Offset(40),
            offset: Offset(45),
            position: 900,
            timestamp: 11,
        }),
        segments: Some(
            [
                Listed {
                    base: Offset(0),
                    size: Some(1000),
                    first_checksum: Some(0xc0),
                    last: Some(KnownMessage {
                        position: 936,
                        checksum: 0xc9,
                    }),
                },
                Listed {
                    size: Some(900),
                    first_checksum: Some(0xc1),
                    ..Listed::new(Offset(20))
                },
                Listed::new(Offset(40)),
            ]
            .to_vec(),
        ),
    }
}

#[test]
fn it_is_one_line_that_people_can_read() {
    let text = manifest().encode();
    let text = core::str::from_utf8(&text).expect("text");
    let expected = concat!(
        "{\"format\":4,\"catalog\":\"000000000000000000000000000000ab\",\"stream\":1,\"topic\":2,\"partition\":3,",
        "\"incarnation\":7,\"purge_epoch\":2,\"tags\":\"partition\",\"contents\":\"kept\",\"epoch\":5,",
        "\"openings\":[[2,17],[5,45]],\"first\":0,",
        "\"synced\":[40,45,900,11],\"segments\":[[0,1000,\"00000000000000c0\",936,\"00000000000000c9\"],[20,900,\"00000000000000c1\"],",
        "[40,null,null]],\"checksum\":\""
    );
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("\"}\n"));
}

#[test]
fn it_says_where_a_truncated_log_ends() {
    let truncated = Manifest {
        end: Some(Offset(42)),
        ..manifest()
    };
    let text = truncated.encode();
    let text = core::str::from_utf8(&text).expect("text");
    assert!(text.starts_with("{\"format\":5,"), "{text}");
    assert!(
        text.contains(",\"first\":0,\"end\":42,\"synced\":["),
        "{text}"
    );
    assert_eq!(Manifest::decode(text.as_bytes()), Some(truncated));
}

/// Formats 1 and 2, written by earlier servers, are still read.
#[test]
fn manifests_of_earlier_formats_are_read() {
    let first = b"{\"format\":1,\"incarnation\":7,\"purge_epoch\":2,\"contents\":\"kept\",\"checksum\":\"194496b377eab5fa\"}\n";
    let earlier = Manifest {
        generation: Generation {
            incarnation: 7,
            purge_epoch: 2,
            partition: None,
        },
        owner: None,
        dropping: false,
        epoch: 0,
        openings: None,
        first: Offset(0),
        end: None,
        synced: None,
        segments: None,
    };
    assert_eq!(Manifest::decode(first), Some(earlier.clone()));
    let second = b"{\"format\":2,\"incarnation\":7,\"purge_epoch\":2,\"contents\":\"kept\",\"segments\":[0,40],\"checksum\":\"4c3966ec2485b166\"}\n";
    let listed = [0, 40].map(|base| Listed::new(Offset(base))).to_vec();
    let earlier = Manifest {
        segments: Some(listed),
        ..earlier
    };
    assert_eq!(Manifest::decode(second), Some(earlier));
}

#[test]
fn the_longest_manifest_fits() {
    let longest = |index| Listed {
        base: Offset(u64::MAX - index),
        size: Some(u64::MAX),
        first_checksum: Some(u64::MAX),
        last: Some(KnownMessage {
            position: u64::MAX,
            checksum: u64::MAX,
        }),
    };
    let longest_opening = opening((u64::MAX, u64::MAX));
    let manifest = Manifest {
        openings: Some([longest_opening; openings::OPENINGS_MAX].to_vec()),
        segments: Some((0..SEGMENTS_LISTED_MAX as u64).map(longest).collect()),
        ..manifest()
    };
    assert!(manifest.encode().len() as u64 <= MANIFEST_BYTES_MAX);
}

fn listed() -> impl Strategy<Value = Listed> {
    let fields = any::<(u64, Option<u64>, Option<u64>, Option<(u64, u64)>)>();
    fields.prop_map(|(base, size, first_checksum, last)| Listed {
        base: Offset(base),
        size,
        first_checksum,
        last: last.map(|(position, checksum)| KnownMessage { position, checksum }),
    })
}

proptest! {
    #[test]
    fn a_manifest_survives_its_encoding(
        numbers: (u64, u64, u64, u64), catalog: u128, flags: (bool, bool, bool), end: Option<u64>,
        synced: Option<(u64, u64, u64, u64)>,
        openings in prop::option::of(prop::collection::vec(any::<(u64, u64)>(), 0..4)),
        segments in prop::option::of(prop::collection::vec(listed(), 0..5)),
    ) {
        let (incarnation, purge_epoch, epoch, first) = numbers;
        let (dropping, is_tagged, is_earlier) = flags;
        let has_openings = openings.is_some();
        let mut manifest = Manifest {
            generation: Generation { incarnation, purge_epoch, partition: is_tagged.then_some(namespace()) },
            owner: Some(Owner { catalog, namespace: namespace() }),
            dropping,
            epoch,
            openings: openings.map(|openings| openings.into_iter().map(opening).collect()),
            first: Offset(first),
            // A log is truncated only with a list of openings.
            end: end.filter(|_| has_openings).map(Offset),
            synced: synced.map(|(segment, offset, position, timestamp)| SyncedEnd {
                segment: Offset(segment), offset: Offset(offset), position, timestamp,
            }),
            segments,
        };
        if is_earlier {
            let bases = |listed: Vec<Listed>| listed.iter().map(|listed| Listed::new(listed.base)).collect();
            manifest = Manifest {
                generation: Generation { partition: None, ..manifest.generation },
                owner: None, epoch: 0, openings: None, first: Offset(0), end: None, synced: None,
                segments: manifest.segments.map(bases),
                ..manifest
            };
        }
        prop_assert_eq!(Manifest::decode(&manifest.encode()), Some(manifest.clone()));
    }

    /// LOG-14: damage at any byte is detected.
    #[test]
    fn a_changed_or_cut_manifest_is_refused(place: prop::sample::Index, mask in 1_u8.., cut: prop::sample::Index) {
        let mut bytes = manifest().encode();
        prop_assert_eq!(Manifest::decode(&bytes[..cut.index(bytes.len())]), None);
        let place = place.index(bytes.len());
        bytes[place] ^= mask;
        prop_assert_eq!(Manifest::decode(&bytes), None);
    }
}
