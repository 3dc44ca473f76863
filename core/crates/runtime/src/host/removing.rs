//! Removal of the directories of deleted partitions.

use headrace_model::{Level, Namespace};
use headrace_shard::Input;

use super::Host;
use crate::{
    driver::{Operation, Outcome, TaskOutput},
    token::Token,
};

impl Host {
    /// Remove the directory of a deleted partition, unless it is another's.
    pub(super) fn remove_directory(&mut self, namespace: Namespace, incarnation: u64) {
        let (removal, removed) = self.storage.removal(namespace, incarnation);
        let events = self.events.clone();
        let work = move || {
            if let Some((kept, owner)) = removal.run(removed)? {
                let kept = kept.display();
                let message = format!(
                    "partition {namespace} is deleted, and the directory at its place was not its own: it is kept as \
                     {kept}. {owner}"
                );
                events.push(Level::Error, message);
            }
            Ok(TaskOutput::nothing())
        };
        let token = Token::RemoveDirectory(namespace.packed()).encode();
        self.driver.submit(token, Operation::Task(Box::new(work)));
    }

    pub(super) fn directory_removed(&mut self, packed: u64, outcome: &Outcome) {
        let Some(namespace) = Namespace::from_packed(packed) else {
            return;
        };
        if let Outcome::Task(Err(error)) = outcome {
            let message = format!(
                "the directory of deleted partition {namespace} cannot be removed: {error}"
            );
            self.events.push(Level::Warning, message);
        }
        self.state
            .inputs
            .push_back(Input::DirectoryRemoved { namespace });
    }
}
