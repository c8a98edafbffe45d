//! What goes wrong: between the logs, in them, and with whoever copies.

use std::collections::VecDeque;

use twinlog_types::Code;

use super::world::{Actor, World};
use crate::copy::Stop;

impl World {
    /// One random misfortune, or new records.
    pub(super) fn fault(&mut self, index: usize) {
        let one_owner = self.actors.len() == 1;
        match self.random.below(15) {
            0..=2 => {
                let wide = self.faults.wide && self.random.once_in(3);
                self.source.grow(&mut self.random, wide);
            }
            3 | 4 => self.lose(index),
            5 | 6 => self.restart(),
            7 if self.faults.foreign => {
                let length = 1 + self.random.below(3) as i64;
                self.broker.append_foreign(length);
                self.log("foreign", length, self.broker.end());
            }
            8 if self.faults.forget && self.nothing_under_way() => {
                self.broker.forget();
                self.log("forgotten", 0, 0);
            }
            9 if self.faults.compact && one_owner => {
                self.source.compact(&mut self.random);
                self.log("compacted", 0, 0);
            }
            10 => {
                let lowest = if self.faults.elect_unclean && self.random.once_in(2) {
                    self.broker.start
                } else {
                    self.broker.high_watermark
                };
                let room = (self.broker.end() - lowest) as usize;
                let end = lowest + self.random.below(room + 1) as i64;
                self.elect(end);
            }
            11 => {
                self.log("stopped from outside", index as i64, 0);
                self.actors[index].copier.stop(Stop {
                    code: Code::MissingPermission,
                    reason: "a right is missing".into(),
                    range: None,
                    passing: true,
                });
                self.stopped(index);
            }
            12 if self.faults.trim_source && one_owner => {
                let length = (self.source.end - self.source.start) as usize;
                let start = self.source.start + self.random.below(length + 1) as i64;
                self.source.trim(start);
                self.log("source trimmed", start, 0);
            }
            13 if self.faults.trim_target => {
                // Half the time only what the durable state knows of. What is more is explained by
                // the producer state and by how long the log is, and else stops the copy.
                let known =
                    self.durable.as_ref().map_or(0, |durable| durable.position.target_end.0);
                let explained = !self.faults.foreign && !self.faults.forget;
                let all = explained && self.random.once_in(2);
                let to = if all { self.broker.high_watermark } else { known };
                let room = to.saturating_sub(self.broker.start).max(0) as usize;
                let start = self.broker.start + self.random.below(room + 1) as i64;
                self.broker.trim(start);
                self.log("target trimmed", start, 0);
            }
            _ => {
                self.actors[index].copier.look_first();
                self.log("must look", index as i64, 0);
            }
        }
    }

    fn nothing_under_way(&self) -> bool {
        self.late.iter().all(VecDeque::is_empty)
            && self
                .actors
                .iter()
                .all(|actor| actor.connection.is_empty() && actor.answers.is_empty())
    }

    /// A connection breaks. What the leader has not come to is late, or never comes.
    fn lose(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        self.late.push(std::mem::take(&mut actor.connection));
        actor.answers.clear();
        actor.copier.lost();
        self.log("connection lost", index as i64, 0);
    }

    fn elect(&mut self, end: i64) {
        self.log("elected", end, i64::from(self.broker.epoch()) + 1);
        self.broker.elect(end);
        // What was on its way to the old leader is lost with it.
        for index in 0..self.actors.len() {
            self.lose(index);
        }
        self.late.clear();
    }

    /// The owner dies, or is taken for dead and goes on; another process takes over.
    pub(super) fn restart(&mut self) {
        let mut old = self.actors.pop().expect("there is an owner");
        if let Some(write) = old.write.take() {
            // The new owner's transaction settles it.
            old.copier.state_not_stored();
            if self.random.once_in(2) {
                self.make_durable(write);
            }
        }
        let goes_on = self.faults.two_owners
            && !self.calm
            && self.durable.is_some()
            && self.random.once_in(2);
        self.log("taken over", i64::from(goes_on), 0);
        if goes_on {
            old.owner = false;
            self.actors.push(old);
        } else {
            self.late.push(old.connection);
        }
        if self.durable.is_none() {
            // Nothing was sent: whoever comes begins anew.
            self.actors.clear();
        }
        let copier = self.restored();
        self.actors.push(Actor::new(copier));
    }
}
