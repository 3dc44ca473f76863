//! File `journal`: the list of journal files and their lengths.
//!
//! A journal file that was truncated or removed looks like one that never held any records. So the files are listed,
//! and listed files must exist: a file is added to the list before the first record is written to it, and taken off the
//! list before it is removed.
//!
//! ```text
//! headrace journal 1
//! <number> <bytes>            one line for each file, ascending
//! <XXH3-64 of all lines above, 16 hexadecimal digits>
//! ```

use std::{fmt::Write as _, io};

use twox_hash::XxHash3_64;

use super::{
    directory::{DataDirectory, unfinished},
    journal::{list, name_of},
};
use crate::{
    errors::{REPLACE_DATA_DIRECTORY, StartError},
    surroundings::OpenMode,
};

const NAME: &str = "journal";
const TITLE: &str = "headrace journal 1";
/// Replace the list. When this returns, the new list is durable.
pub(super) fn write(directory: &DataDirectory, files: &[(u64, u64)]) -> io::Result<()> {
    let mut text = format!("{TITLE}\n");
    for (number, bytes) in files {
        let _ = writeln!(text, "{number} {bytes}");
    }
    let checksum = XxHash3_64::oneshot(text.as_bytes());
    let _ = writeln!(text, "{checksum:016x}");
    let unfinished = unfinished(NAME);
    let file = directory.open(&unfinished, OpenMode::Replace)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.sync_all()?;
    directory.rename(&unfinished, NAME)?;
    directory.sync()
}

/// Create the list of a new data directory.
pub(crate) fn create(directory: &DataDirectory) -> Result<(), StartError> {
    write(directory, &[])
        .map_err(|source| StartError::storage("write", &directory.join(NAME), source))
}

/// Read the list of files, ascending, each with its length. Files that are not listed hold no records: they were being
/// added or removed when the process ended.
pub(crate) fn read(directory: &DataDirectory) -> Result<Vec<(u64, u64)>, StartError> {
    let path = directory.join(NAME);
    let damaged = |why: String| StartError::Damaged {
        path: path.clone(),
        finding: why,
        advice: REPLACE_DATA_DIRECTORY,
    };
    let bytes = match directory.read(NAME) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            return Err(damaged(
                "the list of the journal files is missing".to_owned(),
            ));
        }
        Err(source) => return Err(StartError::storage("read", &path, source)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let files = parse(&text).ok_or_else(|| damaged("it is not as it was written".to_owned()))?;
    let found =
        list(directory).map_err(|source| StartError::storage("list", directory.path(), source))?;
    for (number, bytes) in &files {
        let why = match found.iter().find(|(other, _)| other == number) {
            None => "the journal file is missing".to_owned(),
            Some((_, length)) if length != bytes => {
                format!("the journal file has {length} bytes instead of {bytes}")
            }
            Some(_) => continue,
        };
        return Err(StartError::Damaged {
            path: directory.join(&name_of(*number)),
            finding: why,
            advice: REPLACE_DATA_DIRECTORY,
        });
    }
    Ok(files)
}

/// Remove files that are not listed.
pub(crate) fn clear_unlisted(directory: &DataDirectory, files: &[(u64, u64)]) -> io::Result<()> {
    for (number, _) in list(directory)? {
        if files.iter().all(|(listed, _)| *listed != number) {
            directory.remove(&name_of(number))?;
        }
    }
    Ok(())
}

fn parse(text: &str) -> Option<Vec<(u64, u64)>> {
    let end = text.trim_end_matches('\n').rfind('\n')? + 1;
    let (lines, checksum) = text.split_at(end);
    if u64::from_str_radix(checksum.trim_end(), 16).ok()? != XxHash3_64::oneshot(lines.as_bytes()) {
        return None;
    }
    let mut lines = lines.lines();
    if lines.next()? != TITLE {
        return None;
    }
    lines
        .map(|line| {
            let (number, bytes) = line.split_once(' ')?;
            Some((number.parse().ok()?, bytes.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn refusal(directory: &DataDirectory) -> String {
        let refusal = read(directory).unwrap_err();
        assert_eq!(refusal.reason(), "damaged");
        refusal.to_string()
    }

    /// CTL-5.
    #[test]
    fn what_is_listed_must_be_there_and_whole() {
        let kept = tempfile::tempdir().unwrap();
        let directory = &DataDirectory::on_disk(kept.path());
        assert!(refusal(directory).contains("is missing"));
        create(directory).unwrap();
        assert_eq!(read(directory).unwrap(), []);

        let file = directory.join(&name_of(9));
        fs::write(&file, [0; 100]).unwrap();
        fs::write(directory.join(&name_of(10)), [0; 100]).unwrap();
        write(directory, &[(9, 100)]).unwrap();
        assert_eq!(read(directory).unwrap(), [(9, 100)]);
        clear_unlisted(directory, &[(9, 100)]).unwrap();
        assert_eq!(list(directory).unwrap(), [(9, 100)]);

        fs::write(&file, []).unwrap();
        assert!(refusal(directory).contains("has 0 bytes instead of 100"));
        fs::remove_file(&file).unwrap();
        assert!(refusal(directory).contains("the journal file is missing"));
    }

    #[test]
    fn no_bit_of_the_list_may_differ() {
        let kept = tempfile::tempdir().unwrap();
        let directory = &DataDirectory::on_disk(kept.path());
        write(directory, &[(1, 4096)]).unwrap();
        let path = directory.join(NAME);
        let bytes = fs::read(&path).unwrap();
        for bit in 0..(bytes.len() - 1) * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The case of a hexadecimal digit is irrelevant.
            if damaged.eq_ignore_ascii_case(&bytes) {
                continue;
            }
            fs::write(&path, damaged).unwrap();
            refusal(directory);
        }
    }
}
