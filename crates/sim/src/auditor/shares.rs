//! What each of several hogs should get: exact weighted shares of several CPUs.

/// The shares, in millionths of a CPU, of always-running entities of these weights on `cpus` CPUs.
///
/// Nobody can use more than one CPU; what the heavy ones cannot use is shared by the others in proportion
/// (water-filling). Rounded down.
#[must_use]
pub fn fair_shares(weights: &[u64], cpus: usize) -> Vec<u64> {
    const CPU: u64 = 1_000_000;
    let mut shares = vec![None; weights.len()];
    loop {
        let open = |shares: &[Option<u64>]| (0..weights.len()).filter(|&i| shares[i].is_none()).collect::<Vec<_>>();
        let rest = open(&shares);
        let full = weights.len() - rest.len();
        let left = (cpus.saturating_sub(full)) as u64 * CPU;
        let total: u64 = rest.iter().map(|&i| weights[i]).sum();
        let share =
            |i: usize| u64::try_from(u128::from(left) * u128::from(weights[i]) / u128::from(total)).unwrap_or(CPU);
        match rest.iter().find(|&&i| share(i) >= CPU) {
            Some(_) => rest.iter().filter(|&&i| share(i) >= CPU).for_each(|&i| shares[i] = Some(CPU)),
            None => {
                rest.iter().for_each(|&i| shares[i] = Some(share(i)));
                return shares.into_iter().map(|share| share.unwrap_or(CPU)).collect();
            }
        }
    }
}
