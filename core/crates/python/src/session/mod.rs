//! Sessions, producers and consumers that the engine drives, for the package `headrace`.

mod batch;
mod completions;
mod consumer;
mod deliveries;
mod direct;
mod failures;
mod headers;
mod iteration;
mod pending;
mod producer;
mod reports;
mod requester;
mod sender;
mod settings;
mod virtual_time;

use pyo3::prelude::*;

pub(crate) use batch::Batch;
pub(crate) use headers::{encode as encoded_headers, headers_dict, key_of};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    failures::register(module)?;
    module.add_class::<completions::Completions>()?;
    module.add_class::<pending::Pending>()?;
    module.add_class::<settings::SessionConfig>()?;
    module.add_class::<requester::Requester>()?;
    deliveries::register(module)?;
    module.add_class::<producer::Producer>()?;
    module.add_class::<sender::Sender>()?;
    module.add_class::<sender::AwaitableSender>()?;
    module.add_class::<reports::Reports>()?;
    module.add_class::<virtual_time::VirtualTime>()?;
    module.add_class::<direct::DirectProducer>()?;
    module.add_class::<Batch>()?;
    module.add_class::<batch::BatchMessages>()?;
    module.add_class::<iteration::ConsumerMessages>()?;
    module.add_class::<consumer::Consumer>()
}
