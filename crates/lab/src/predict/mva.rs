//! Exact throughput of a closed network with exponential services: what the model must agree with.
//!
//! In: a delay, a lock and a memory whose speed depends on its load. Out: cycles per ns. The network has
//! product form, so the normalising constant gives the throughput (Buzen's convolution, 1973). It is the same
//! figure as in exact mean value analysis, and also holds for stations that depend on their load.

use super::memory::Saturation;

/// A closed network of one delay, one queue and one shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Mean time that needs no resource.
    pub delay_ns: f64,
    /// Mean service under the lock.
    pub lock_ns: f64,
    /// Mean work on the memory, alone.
    pub memory_ns: f64,
    /// How streams slow each other down.
    pub saturation: Saturation,
}

impl Network {
    /// Cycles per ns with so many customers.
    pub(crate) fn throughput(&self, customers: usize) -> f64 {
        let mut stations = [vec![1.0], vec![1.0], vec![1.0]];
        for count in 1..=customers {
            let streams = count as f64 * self.saturation.speed(count);
            let factors = [self.delay_ns / count as f64, self.lock_ns, self.memory_ns / streams];
            for (station, factor) in stations.iter_mut().zip(factors) {
                station.push(station[count - 1] * factor);
            }
        }
        let [delay, lock, memory] = stations;
        let all = convolved(&convolved(&delay, &lock), &memory);
        all[customers - 1] / all[customers]
    }
}

fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len()).map(|sum| (0..=sum).map(|index| a[index] * b[sum - index]).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_networks() {
        let network =
            Network { delay_ns: 0.0, lock_ns: 2.0, memory_ns: 2.0, saturation: Saturation::Streams(1.0) };
        // Two equal queues: N / (N + 1) of the rate of one.
        for customers in [1, 2, 3, 8] {
            let expected = customers as f64 / (customers as f64 + 1.0) / 2.0;
            assert!((network.throughput(customers) - expected).abs() < 1e-12, "{customers}");
        }
        let free = Network { delay_ns: 5.0, lock_ns: 0.0, memory_ns: 5.0, ..network };
        let free = Network { saturation: Saturation::Streams(1e9), ..free };
        assert!((free.throughput(4) - 0.4).abs() < 1e-12, "nobody waits");
    }
}
