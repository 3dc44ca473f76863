//! Certificates change while connections live: what is new is used for new connections, what is bad is not.

use std::sync::{Mutex, PoisonError};

use headrace_model::Level;
use headrace_runtime::Events;

use super::problem::CertificateProblem;

/// What is read from files, and read again.
pub(crate) trait Credentials {
    /// The bytes of the files, as they were at one moment.
    type Material: PartialEq;
    /// What a TLS library makes of them.
    type Ready: Clone;

    /// Read the files.
    fn read(&self) -> Result<Self::Material, CertificateProblem>;

    /// Make something of what was read.
    fn build(&self, material: &Self::Material) -> Result<Self::Ready, CertificateProblem>;

    /// Whether the certificate that is shown is valid now.
    fn check_time(ready: &Self::Ready) -> Result<(), CertificateProblem>;

    /// Whether `new` may take the place of `old`.
    fn check_succession(new: &Self::Ready, old: &Self::Ready) -> Result<(), CertificateProblem>;

    /// Say what is used from now on.
    fn announce(&self, door: &str, ready: &Self::Ready, events: &Events);

    /// What stays in use, for a complaint about what does not come.
    fn name_in_use(ready: &Self::Ready) -> String;
}

/// The credentials of one door through time.
pub(crate) struct Renewal<C: Credentials> {
    door: &'static str,
    credentials: C,
    events: Events,
    /// What was looked at last: used, or refused and reported already.
    seen: Mutex<Seen<C>>,
}

struct Seen<C: Credentials> {
    material: Option<C::Material>,
    /// Reported, so that a check that fails every few seconds is one line.
    complaint: Option<String>,
    in_use: C::Ready,
}

impl<C: Credentials> Renewal<C> {
    /// Read the first certificate. One that has expired is used all the same, with a warning: clients that do not verify
    /// go on, and the others are told by it what is wrong.
    pub(crate) fn begin(
        door: &'static str,
        credentials: C,
        events: Events,
    ) -> Result<Self, CertificateProblem> {
        let material = credentials.read()?;
        let ready = credentials.build(&material)?;
        credentials.announce(door, &ready, &events);
        if let Err(problem) = C::check_time(&ready) {
            events.push(
                Level::Warning,
                format!("{door}: {problem}; it is shown all the same"),
            );
        }
        Ok(Self {
            door,
            credentials,
            events,
            seen: Mutex::new(Seen {
                material: Some(material),
                complaint: None,
                in_use: ready,
            }),
        })
    }

    /// What new connections get.
    pub(crate) fn in_use(&self) -> C::Ready {
        self.lock().in_use.clone()
    }

    /// Look at the files. The new certificate, if there is one and it is good; a bad one is reported once, and the old
    /// one stays.
    pub(crate) fn check(&self) -> Option<C::Ready> {
        let mut seen = self.lock();
        let material = match self.credentials.read() {
            Ok(material) => material,
            Err(problem) => {
                // Files are replaced one after the other: the next look may find them whole.
                seen.material = None;
                self.complain(&mut seen, &problem);
                return None;
            }
        };
        if seen.material.as_ref() == Some(&material) {
            return None;
        }
        let checked = self.credentials.build(&material).and_then(|ready| {
            C::check_succession(&ready, &seen.in_use)?;
            C::check_time(&ready)?;
            Ok(ready)
        });
        seen.material = Some(material);
        match checked {
            Ok(ready) => {
                seen.complaint = None;
                seen.in_use = ready.clone();
                self.credentials.announce(self.door, &ready, &self.events);
                Some(ready)
            }
            Err(problem) => {
                self.complain(&mut seen, &problem);
                None
            }
        }
    }

    fn complain(&self, seen: &mut Seen<C>, problem: &CertificateProblem) {
        let complaint = format!(
            "{}: the new certificate is not used: {problem}; {} stays",
            self.door,
            C::name_in_use(&seen.in_use)
        );
        if seen.complaint.as_ref() != Some(&complaint) {
            self.events.push(Level::Warning, complaint.clone());
            seen.complaint = Some(complaint);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen<C>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
