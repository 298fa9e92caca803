//! Markers: bursts of faults, and waits for `mmap_lock`.

use std::collections::BTreeMap;

use faultless_trace::profile::Weighted;
use faultless_trace::stat::Kind;
use fxprof_processed_profile::{
    CategoryHandle, MarkerFieldFlags, MarkerFieldFormat, Profile, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle,
};

/// Consecutive faults of a thread.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    faults: f64,
    cost_ns: f64,
    kinds: BTreeMap<Kind, f64>,
}

impl Burst {
    pub(super) fn new(fault: &Weighted) -> Self {
        let begin_ns = fault.time_ns;
        let mut burst =
            Self { begin_ns, end_ns: begin_ns, faults: 0.0, cost_ns: 0.0, kinds: BTreeMap::new() };
        burst.add(fault);
        burst
    }

    pub(super) fn add(&mut self, fault: &Weighted) {
        let each_ns = fault.time_ns() / fault.faults.max(1.0);
        self.end_ns = self.end_ns.max(fault.time_ns.saturating_add(super::super::whole(each_ns) as u64));
        self.faults += fault.faults;
        self.cost_ns += fault.time_ns();
        *self.kinds.entry(fault.kind).or_default() += fault.faults;
    }

    /// The most frequent kind.
    pub(super) fn kind(&self) -> Kind {
        let most = self.kinds.iter().max_by(|a, b| a.1.total_cmp(b.1));
        most.map_or(Kind::Unknown, |(&kind, _)| kind)
    }

    pub(super) fn marker(&self, kind: StringHandle, category: CategoryHandle) -> BurstMarker {
        BurstMarker { kind, category, faults: self.faults, cost_ns: self.cost_ns }
    }
}

#[derive(Clone, Debug)]
pub(super) struct BurstMarker {
    kind: StringHandle,
    category: CategoryHandle,
    faults: f64,
    cost_ns: f64,
}

const fn field(key: &'static str, label: &'static str, format: MarkerFieldFormat) -> StaticSchemaMarkerField {
    StaticSchemaMarkerField { key, label, format, flags: MarkerFieldFlags::SEARCHABLE }
}

impl StaticSchemaMarker for BurstMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "FaultBurst";
    const DESCRIPTION: Option<&'static str> = Some("Page faults of a thread in a row.");
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.faults} {marker.data.kind}");
    const TABLE_LABEL: Option<&'static str> =
        Some("{marker.data.faults} faults, mostly {marker.data.kind}, {marker.data.cost}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        field("kind", "Most frequent kind", MarkerFieldFormat::String),
        field("faults", "Faults", MarkerFieldFormat::Decimal),
        field("cost", "Time in faults", MarkerFieldFormat::Nanoseconds),
    ];

    fn name(&self, profile: &mut Profile) -> StringHandle {
        profile.intern_string("faults")
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.kind
    }

    fn number_field_value(&self, field: u32) -> f64 {
        if field == 1 { self.faults } else { self.cost_ns }
    }
}

/// A wait for `mmap_lock`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockWait {
    pub(super) write: bool,
}

impl StaticSchemaMarker for LockWait {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "LockWait";
    const DESCRIPTION: Option<&'static str> = Some("Wait for the lock of the address space (mmap_lock).");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[];

    fn name(&self, profile: &mut Profile) -> StringHandle {
        profile.intern_string(if self.write { "mmap_lock for writing" } else { "mmap_lock for reading" })
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        unreachable!("it has no fields")
    }

    fn number_field_value(&self, _: u32) -> f64 {
        unreachable!("it has no fields")
    }
}
