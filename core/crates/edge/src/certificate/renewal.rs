//! Certificates change while connections live: what is new is used for new connections, what is bad is not.

use std::sync::{Mutex, PoisonError};

use headrace_model::Level;
use headrace_runtime::Events;

use super::{
    problem::CertificateProblem,
    read::{Identity, Material, Purpose, Ready},
};

/// The certificate of one door through time.
pub(crate) struct Renewal {
    door: &'static str,
    identity: Identity,
    events: Events,
    /// What was looked at last: used, or refused and reported already.
    seen: Mutex<Seen>,
}

struct Seen {
    material: Option<Material>,
    /// Reported, so that a check that fails every few seconds is one line.
    complaint: Option<String>,
    in_use: Ready,
}

impl Renewal {
    /// Read the first certificate. One that has expired is used all the same, with a warning: clients that do not verify
    /// go on, and the others are told by it what is wrong.
    pub(crate) fn begin(
        door: &'static str,
        identity: Identity,
        events: Events,
    ) -> Result<Self, CertificateProblem> {
        let material = identity.read()?;
        let ready = identity.build(&material)?;
        announce(door, &identity, &ready, &events);
        if let Err(problem) = ready.facts.check_time() {
            events.push(
                Level::Warning,
                format!("{door}: {problem}; it is shown all the same"),
            );
        }
        Ok(Self {
            door,
            identity,
            events,
            seen: Mutex::new(Seen {
                material: Some(material),
                complaint: None,
                in_use: ready,
            }),
        })
    }

    /// What new connections get.
    pub(crate) fn in_use(&self) -> Ready {
        self.lock().in_use.clone()
    }

    /// Look at the files. The new certificate, if there is one and it is good; a bad one is reported once, and the old
    /// one stays.
    pub(crate) fn check(&self) -> Option<Ready> {
        let mut seen = self.lock();
        let material = match self.identity.read() {
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
        let checked = if material.is_self_signed() && !seen.in_use.is_self_signed {
            // Moved away to make room for the next one, most likely.
            Err(CertificateProblem::Gone)
        } else {
            let built = self.identity.build(&material);
            built.and_then(|ready| ready.facts.check_time().map(|()| ready))
        };
        seen.material = Some(material);
        match checked {
            Ok(ready) => {
                seen.complaint = None;
                seen.in_use = ready.clone();
                announce(self.door, &self.identity, &ready, &self.events);
                Some(ready)
            }
            Err(problem) => {
                self.complain(&mut seen, &problem);
                None
            }
        }
    }

    fn complain(&self, seen: &mut Seen, problem: &CertificateProblem) {
        let complaint = format!(
            "{}: the new certificate is not used: {problem}; the old one, valid until {}, stays",
            self.door, seen.in_use.facts.valid_until
        );
        if seen.complaint.as_ref() != Some(&complaint) {
            self.events.push(Level::Warning, complaint.clone());
            seen.complaint = Some(complaint);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn announce(door: &str, identity: &Identity, ready: &Ready, events: &Events) {
    let facts = &ready.facts;
    let origin = if ready.is_self_signed {
        "self-signed, made by this process".to_owned()
    } else {
        format!("signed by {}", facts.issuer)
    };
    events.push(
        Level::Info,
        format!(
            "{door}: shows the certificate of {} ({origin}, valid until {})",
            facts.subject, facts.valid_until
        ),
    );
    if let (true, Some(file)) = (ready.is_self_signed, &identity.files.cert_file) {
        let message = format!("{door}: {} does not exist", file.display());
        events.push(Level::Warning, message);
    }
    if identity.purpose == Purpose::Quic && !facts.is_p256 {
        events.push(
            Level::Warning,
            format!(
                "{door}: the certificate's key is not on the curve P-256: official clients that do not verify \
                 certificates cannot connect"
            ),
        );
    }
}
