//! Renewal of certificates at run time: a valid new certificate serves new connections, an invalid one is refused.

use std::sync::{Mutex, PoisonError};

use headrace_model::Level;
use headrace_runtime::Events;

use super::problem::CertificateProblem;

/// Credentials that are read from files repeatedly.
pub(crate) trait Credentials {
    /// Contents of the files at one moment.
    type Material: PartialEq;
    /// TLS configuration built from them.
    type Ready: Clone;

    /// Read the files.
    fn read(&self) -> Result<Self::Material, CertificateProblem>;

    /// Build a TLS configuration from the contents.
    fn build(&self, material: &Self::Material) -> Result<Self::Ready, CertificateProblem>;

    /// Check that the own certificate is valid now.
    fn check_time(ready: &Self::Ready) -> Result<(), CertificateProblem>;

    /// Check that `new` may replace `old`.
    fn check_succession(new: &Self::Ready, old: &Self::Ready) -> Result<(), CertificateProblem>;

    /// Log the certificate that is used from now on.
    fn announce(&self, listener: &str, ready: &Self::Ready, events: &Events);

    /// Description of the certificate that stays in use, for the warning about a refused one.
    fn name_in_use(ready: &Self::Ready) -> String;
}

/// Credentials of one listener and their renewal.
pub(crate) struct Renewal<C: Credentials> {
    listener: &'static str,
    credentials: C,
    events: Events,
    /// Contents that were read last: in use, or refused for good and reported already.
    seen: Mutex<Seen<C>>,
}

struct Seen<C: Credentials> {
    material: Option<C::Material>,
    /// Problem that was reported last, so that a check that fails every few seconds is logged once.
    complaint: Option<String>,
    in_use: C::Ready,
}

impl<C: Credentials> Renewal<C> {
    /// Read the first certificate. An expired one is used all the same, with a warning: clients that do not verify
    /// continue, and the others get a meaningful error.
    pub(crate) fn begin(
        listener: &'static str,
        credentials: C,
        events: Events,
    ) -> Result<Self, CertificateProblem> {
        let material = credentials.read()?;
        let ready = credentials.build(&material)?;
        credentials.announce(listener, &ready, &events);
        if let Err(problem) = C::check_time(&ready) {
            events.push(
                Level::Warning,
                format!("{listener}: {problem}; it is shown all the same"),
            );
        }
        Ok(Self {
            listener,
            credentials,
            events,
            seen: Mutex::new(Seen {
                material: Some(material),
                complaint: None,
                in_use: ready,
            }),
        })
    }

    /// Configuration for new connections.
    pub(crate) fn in_use(&self) -> C::Ready {
        self.lock().in_use.clone()
    }

    /// Read the files again. Returns the new configuration if it is valid; an invalid one is reported once, and the old
    /// one stays.
    pub(crate) fn check(&self) -> Option<C::Ready> {
        let mut seen = self.lock();
        let material = match self.credentials.read() {
            Ok(material) => material,
            Err(problem) => {
                // Files are replaced one after the other: the next check may find a consistent set.
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
        // The files of a certificate that is not valid yet do not change when it becomes valid: look again each time.
        let depends_on_time = matches!(checked, Err(CertificateProblem::NotNow { .. }));
        seen.material = (!depends_on_time).then_some(material);
        match checked {
            Ok(ready) => {
                seen.complaint = None;
                seen.in_use = ready.clone();
                self.credentials
                    .announce(self.listener, &ready, &self.events);
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
            self.listener,
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    };

    use super::*;

    /// Certificates with numbers instead of files.
    #[derive(Clone, Default)]
    struct Numbered {
        number: Arc<AtomicU32>,
        is_valid: Arc<AtomicBool>,
    }

    impl Numbered {
        fn set(&self, number: u32, is_valid: bool) {
            self.number.store(number, Ordering::Relaxed);
            self.is_valid.store(is_valid, Ordering::Relaxed);
        }
    }

    impl Credentials for Numbered {
        type Material = u32;
        type Ready = (u32, Arc<AtomicBool>);

        fn read(&self) -> Result<u32, CertificateProblem> {
            Ok(self.number.load(Ordering::Relaxed))
        }

        fn build(&self, material: &u32) -> Result<Self::Ready, CertificateProblem> {
            Ok((*material, Arc::clone(&self.is_valid)))
        }

        fn check_time(ready: &Self::Ready) -> Result<(), CertificateProblem> {
            if ready.1.load(Ordering::Relaxed) {
                return Ok(());
            }
            Err(CertificateProblem::NotNow {
                from: "tomorrow".into(),
                until: "next year".into(),
            })
        }

        fn check_succession(
            _new: &Self::Ready,
            _old: &Self::Ready,
        ) -> Result<(), CertificateProblem> {
            Ok(())
        }

        fn announce(&self, listener: &str, ready: &Self::Ready, events: &Events) {
            events.push(Level::Info, format!("{listener}: {} in use", ready.0));
        }

        fn name_in_use(ready: &Self::Ready) -> String {
            ready.0.to_string()
        }
    }

    #[test]
    fn a_certificate_that_comes_early_is_used_when_it_has_become_valid() {
        let (files, events) = (Numbered::default(), Events::default());
        files.set(1, true);
        let renewal = Renewal::begin("tcp", files.clone(), events.clone()).unwrap();
        let look = || renewal.check().map(|ready| ready.0);
        assert_eq!((look(), events.take().len()), (None, 1));
        files.set(2, false);
        assert_eq!([look(), look(), look()], [None; 3]);
        assert_eq!(events.take().len(), 1, "one warning");
        assert_eq!(renewal.in_use().0, 1);
        files.set(2, true);
        assert_eq!([look(), look()], [Some(2), None]);
        assert_eq!(renewal.in_use().0, 2);
        assert_eq!(events.take().len(), 1);
    }
}
