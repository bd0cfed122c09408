//! What the machine has left. The engine does not know where its store is: whoever runs the server
//! tells how to find out.

use super::Engine;

/// What the machine has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachineFigures {
    /// Bytes free and in all, where the store is.
    pub disk_bytes: Option<(u64, u64)>,
    /// Files open, and how many may be.
    pub files: Option<(u64, u64)>,
}

/// Finds out; may ask the system, and should not take long.
pub(super) type MachineProbe = Box<dyn Fn() -> MachineFigures + Send + Sync>;

impl Engine {
    /// Takes who can tell what the machine has left.
    pub fn measure_machine_by(&self, probe: impl Fn() -> MachineFigures + Send + Sync + 'static) {
        // There is one machine.
        let _ = self.machine.set(Box::new(probe));
    }

    /// What the machine has left, as far as anybody can tell.
    pub(crate) fn machine(&self) -> MachineFigures {
        self.machine.get().map_or_else(MachineFigures::default, |probe| probe())
    }
}
