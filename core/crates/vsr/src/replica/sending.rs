//! Construction and sending of frames.

use headrace_buffer::Slice;

use crate::api::{DropReason, Notice, Output};
use crate::frame::{Area, CommandArea, Frame, FrameFlags, Origin};
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    pub(super) fn origin(&self) -> Origin {
        Origin {
            cluster: self.config.cluster,
            group: self.config.group,
            view: self.view,
            epoch: self.superblock.epoch(),
            replica: self.config.replica,
            release: self.config.release,
            flags: FrameFlags::NONE,
            incarnation: self.incarnation,
        }
    }

    /// Create a frame of this replica in its current view.
    pub(super) fn frame(&self, area: impl CommandArea + Into<Area>, body: Slice) -> Frame {
        Frame::seal(self.origin(), area, body).any()
    }

    pub(super) fn send(&mut self, to: u8, area: impl CommandArea + Into<Area>, body: Slice) {
        let frame = self.frame(area, body);
        self.send_frame(to, frame);
    }

    pub(super) fn send_frame(&mut self, to: u8, frame: Frame) {
        debug_assert_ne!(to, self.config.replica, "a replica does not send to itself");
        self.out.push(Output::Send { to, frame });
    }

    pub(super) fn broadcast(&mut self, frame: &Frame) {
        for to in self.peers() {
            self.send_frame(to, frame.clone());
        }
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.out.push(Output::Notice(notice));
    }

    pub(super) fn dropped(&mut self, reason: DropReason) {
        self.notice(Notice::Dropped(reason));
    }

    pub(super) fn notice_view(&mut self) {
        self.notice(Notice::View {
            view: self.view,
            status: self.status,
        });
    }
}
