//! Append path: from a batch that arrives to bytes in the files of the log.
//!
//! A batch is admitted (`append`) and stamped in one pass (`stamp`), waits in memory (`tail`), and is written
//! (`write`) and synced (`sync`) together with others. A full disk suspends all of this (`shortage`).

pub(crate) mod append;
pub(crate) mod shortage;
pub(crate) mod stamp;
pub(crate) mod sync;
pub(crate) mod tail;
pub(crate) mod write;
