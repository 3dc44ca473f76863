//! Compatibility of releases, as found in frames, superblocks and handshakes.

use headrace_vsr::frame::Release;

/// Release of this code.
pub(crate) fn own() -> Release {
    parse(env!("CARGO_PKG_VERSION")).expect("the version of a package has three numbers")
}

/// Parse `major.minor.patch`; a suffix after `-` is ignored.
pub(crate) fn parse(text: &str) -> Option<Release> {
    let mut parts = text.split('-').next()?.split('.');
    let release = Release::new(
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
    );
    parts.next().is_none().then_some(release)
}

fn major(release: Release) -> u32 {
    release.0 >> 16
}

fn minor(release: Release) -> u32 {
    release.0 >> 8 & 0xFF
}

/// Return whether replicas of both releases may form a group: adjacent ones, so that replicas can be upgraded one at a
/// time.
pub(crate) fn are_compatible(one: Release, other: Release) -> bool {
    major(one) == major(other) && minor(one).abs_diff(minor(other)) <= 1
}

/// Return whether `reader` may open files written by `writer`: a downgrade may change the patch number at most.
pub(crate) fn can_open(reader: Release, writer: Release) -> bool {
    (major(reader), minor(reader)) >= (major(writer), minor(writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_read_as_they_print() {
        let release = Release::new(1, 20, 3);
        assert_eq!(parse("1.20.3"), Some(release));
        assert_eq!(parse("1.20.3-rc1"), Some(release));
        for wrong in ["", "1", "1.2", "1.2.3.4", "1.2.x", "1.2.300"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(own().to_string(), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn neighbours_work_together_and_files_are_not_opened_by_older_ones() {
        let this = Release::new(1, 4, 2);
        assert!(are_compatible(this, Release::new(1, 5, 0)));
        assert!(are_compatible(this, Release::new(1, 3, 7)));
        assert!(!are_compatible(this, Release::new(1, 6, 0)));
        assert!(!are_compatible(this, Release::new(2, 4, 2)));
        assert!(can_open(this, Release::new(1, 4, 9)));
        assert!(can_open(this, Release::new(1, 2, 0)));
        assert!(!can_open(this, Release::new(1, 5, 0)));
    }
}
