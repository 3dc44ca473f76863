//! Versions in the statistics of a server.

/// Version as one decimal number with three digits for minor and patch: 1.2.3 is 1002003.
///
/// `None` if minor or patch need more digits, or the result overflows.
pub const fn semantic_version(major: u32, minor: u32, patch: u32) -> Option<u32> {
    if minor > 999 || patch > 999 {
        return None;
    }
    let Some(major) = major.checked_mul(1_000_000) else {
        return None;
    };
    major.checked_add(minor * 1000 + patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_numbers() {
        assert_eq!(semantic_version(0, 8, 0), Some(8000));
        assert_eq!(semantic_version(1, 2, 3), Some(1_002_003));
        assert_eq!(semantic_version(0, 1000, 0), None);
        assert_eq!(semantic_version(0, 0, 1000), None);
        assert_eq!(semantic_version(4295, 0, 0), None);
    }
}
