//! The file `journal`: which files the journal has, and how long they are.
//!
//! A journal file that was cut short or removed looks like one that never held anything. So the files are listed, and
//! what is listed must be there: a file is added to the list before the first record goes into it, and taken off the
//! list before it is removed.
//!
//! ```text
//! headrace journal 1
//! <number> <bytes>            one line for each file, ascending
//! <XXH3-64 of all lines above, 16 hexadecimal digits>
//! ```

use std::{
    fmt::Write as _,
    fs,
    io::{self, ErrorKind, Write},
    path::Path,
};

use twox_hash::XxHash3_64;

use super::{
    folder::{UNFINISHED, options, sync_folder},
    journal::{list, path_of},
};
use crate::errors::StartError;

const NAME: &str = "journal";
const TITLE: &str = "headrace journal 1";
const ADVICE: &str = "Nothing was changed: restore the folder from a backup; with peers that are whole, move it away and \
                      start with an empty one";

/// Replace the list. When this returns, it is durable.
pub(super) fn write(folder: &Path, files: &[(u64, u64)], sync: bool) -> io::Result<()> {
    let mut text = format!("{TITLE}\n");
    for (number, bytes) in files {
        let _ = writeln!(text, "{number} {bytes}");
    }
    let checksum = XxHash3_64::oneshot(text.as_bytes());
    let _ = writeln!(text, "{checksum:016x}");
    let path = folder.join(NAME);
    let unfinished = path.with_extension(UNFINISHED);
    let mut file = options().create(true).truncate(true).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    if sync {
        file.sync_all()?;
    }
    fs::rename(&unfinished, &path)?;
    if sync {
        sync_folder(folder)?;
    }
    Ok(())
}

/// Begin the list of a new folder.
pub(crate) fn create(folder: &Path, sync: bool) -> Result<(), StartError> {
    write(folder, &[], sync)
        .map_err(|source| StartError::storage("write", &folder.join(NAME), source))
}

/// The files that there are, ascending, each with its length. Files that are not listed hold nothing: they were being
/// added or removed when the process ended.
pub(crate) fn read(folder: &Path) -> Result<Vec<(u64, u64)>, StartError> {
    let path = folder.join(NAME);
    let damaged = |why: String| StartError::Damaged {
        path: path.clone(),
        why,
        advice: ADVICE,
    };
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(damaged(
                "the list of the journal files is missing".to_owned(),
            ));
        }
        Err(source) => return Err(StartError::storage("read", &path, source)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let files = parse(&text).ok_or_else(|| damaged("it is not as it was written".to_owned()))?;
    let found = list(folder).map_err(|source| StartError::storage("list", folder, source))?;
    for (number, bytes) in &files {
        let why = match found.iter().find(|(other, _)| other == number) {
            None => "the journal file is missing".to_owned(),
            Some((_, length)) if length != bytes => {
                format!("the journal file has {length} bytes instead of {bytes}")
            }
            Some(_) => continue,
        };
        return Err(StartError::Damaged {
            path: path_of(folder, *number),
            why,
            advice: ADVICE,
        });
    }
    Ok(files)
}

/// Remove what is not listed.
pub(crate) fn clear_unlisted(folder: &Path, files: &[(u64, u64)]) -> io::Result<()> {
    for (number, _) in list(folder)? {
        if files.iter().all(|(listed, _)| *listed != number) {
            fs::remove_file(path_of(folder, number))?;
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
    use super::*;

    fn refusal(folder: &Path) -> String {
        let refusal = read(folder).unwrap_err();
        assert_eq!(refusal.reason(), "damaged");
        refusal.to_string()
    }

    /// CTL-5.
    #[test]
    fn what_is_listed_must_be_there_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(refusal(folder).contains("is missing"));
        create(folder, true).unwrap();
        assert_eq!(read(folder).unwrap(), []);

        let file = path_of(folder, 9);
        fs::write(&file, [0; 100]).unwrap();
        fs::write(path_of(folder, 10), [0; 100]).unwrap();
        write(folder, &[(9, 100)], true).unwrap();
        assert_eq!(read(folder).unwrap(), [(9, 100)]);
        clear_unlisted(folder, &[(9, 100)]).unwrap();
        assert_eq!(list(folder).unwrap(), [(9, 100)]);

        fs::write(&file, []).unwrap();
        assert!(refusal(folder).contains("has 0 bytes instead of 100"));
        fs::remove_file(&file).unwrap();
        assert!(refusal(folder).contains("the journal file is missing"));
    }

    #[test]
    fn no_bit_of_the_list_may_differ() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[(1, 4096)], true).unwrap();
        let path = folder.path().join(NAME);
        let bytes = fs::read(&path).unwrap();
        for bit in 0..(bytes.len() - 1) * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The case of a hexadecimal digit does not matter.
            if damaged.eq_ignore_ascii_case(&bytes) {
                continue;
            }
            fs::write(&path, damaged).unwrap();
            refusal(folder.path());
        }
    }
}
