//! Execution of the effects that shards request.

use headrace_shard::{ConnectionKey, Effect, Input, Mail};

use super::{World, wire::End};

impl World {
    /// End of a new connection, which is this wire and side.
    pub(super) fn end(&mut self, process: usize, shard: usize, place: (usize, usize)) -> End {
        let host = &mut self.processes[process];
        host.connections += 1;
        let key = ConnectionKey {
            index: host.connections,
            generation: 1,
        };
        self.ends.insert((process, key), place);
        End::new(process, shard, key)
    }

    fn end_mut(&mut self, process: usize, key: ConnectionKey) -> &mut End {
        let (wire, side) = self.ends[&(process, key)];
        self.wires[wire].ends[side].as_mut().expect("a process's")
    }

    fn mail(&mut self, process: usize, shard: usize, mail: Mail) {
        if matches!(mail, Mail::Watch { .. } | Mail::ViewChanged { .. }) {
            self.watch_mails += 1;
        }
        if self.mail_held {
            self.held_mail.push_back((process, shard, mail));
        } else {
            self.processes[process].inputs[shard].push_back(Input::Mail(mail));
        }
    }

    pub(super) fn execute(&mut self, process: usize, shard: usize, effects: Vec<Effect>) {
        for effect in effects {
            let is_of_files = matches!(
                effect,
                Effect::Storage { .. }
                    | Effect::RemoveDirectory { .. }
                    | Effect::ReleaseFiles { .. }
            );
            assert!(
                !(is_of_files && self.processes[process].is_gateway()),
                "a gateway has no files: {effect:?}"
            );
            match effect {
                Effect::Receive {
                    connection,
                    buffer,
                    start,
                    minimum,
                    ..
                } => {
                    assert!(
                        minimum >= 1 && start + minimum <= buffer.len(),
                        "room for the awaited bytes"
                    );
                    let end = self.end_mut(process, connection);
                    assert!(end.receive.is_none(), "one receive at a time");
                    end.receive = Some((buffer, start, minimum));
                }
                Effect::Send { connection, slices } => {
                    let (wire, side) = self.ends[&(process, connection)];
                    let wire = &mut self.wires[wire];
                    if !wire.is_ended[1 - side] {
                        for slice in &slices {
                            wire.towards[1 - side].extend(&**slice);
                        }
                    }
                    let end = wire.ends[side].as_mut().expect("a process's");
                    assert!(end.sending.is_none(), "one send at a time");
                    end.sending = Some(slices);
                }
                Effect::Move {
                    connection,
                    to,
                    connection_state,
                } => {
                    let moved = ConnectionKey {
                        generation: connection.generation + 1,
                        ..connection
                    };
                    let shard = if self.moves_fail {
                        shard
                    } else {
                        usize::from(to.0)
                    };
                    let place = self.ends.remove(&(process, connection)).expect("known");
                    self.ends.insert((process, moved), place);
                    let end = self.end_mut(process, moved);
                    assert!(
                        end.receive.is_none(),
                        "nothing is in flight on a connection that moves"
                    );
                    (end.key, end.shard) = (moved, shard);
                    self.processes[process].inputs[shard].push_back(Input::Adopted {
                        connection: moved,
                        connection_state,
                    });
                }
                Effect::Finish { connection } => {
                    let (wire, side) = self.ends[&(process, connection)];
                    self.wires[wire].is_ended[1 - side] = true;
                }
                Effect::Close { connection } => self.close(process, connection),
                Effect::Storage { namespace, request } => {
                    self.storage.push_back((process, shard, namespace, request));
                    if !self.is_storage_slow {
                        self.store();
                    }
                }
                Effect::RemoveDirectory { namespace, .. } => {
                    self.files.remove_directory(namespace);
                    let inputs = &mut self.processes[process].inputs[shard];
                    inputs.push_back(Input::DirectoryRemoved { namespace });
                }
                Effect::ReleaseFiles { .. } => {}
                Effect::Mail { to, mail } => self.mail(process, usize::from(to.0), mail),
                Effect::Connect { link, address } => {
                    self.connecting
                        .push_back((process, link, address.to_string()));
                }
                Effect::Notice { request } => self.notices.push(request),
                Effect::Report { level, message } => {
                    self.reports.push(format!("{}: {message}", level.name()));
                }
                Effect::Control { origin, request } => {
                    self.ask_control_plane((process, shard), origin, request);
                }
            }
        }
    }

    fn close(&mut self, process: usize, connection: ConnectionKey) {
        let (index, side) = self.ends[&(process, connection)];
        let end = self.end_mut(process, connection);
        end.is_closed = true;
        end.sending = None;
        let wire = &mut self.wires[index];
        wire.is_ended[1 - side] |= wire.node.is_some();
        let node = wire.node.and_then(|id| self.nodes.get_mut(&id));
        if let Some(node) = node {
            node.links.remove(&index);
        }
    }
}
