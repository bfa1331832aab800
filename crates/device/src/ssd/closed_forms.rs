//! Write amplification in steady state under random overwrites, from theory: P. Desnoyers, "Analytic
//! Models of SSD Write Performance", ACM Transactions on Storage 10(2), 2014.
//!
//! `alpha` is the number of physical pages for each logical one; over-provisioning is `alpha - 1`.

/// A share of the data, and the share of the writes that goes to it, spread evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Share of the logical pages.
    pub data: f64,
    /// Share of the writes.
    pub writes: f64,
}

/// The least solution of `w * e^w = x` between -1 and 0: the principal branch of Lambert's W there.
fn lambert_w(x: f64) -> f64 {
    bisect(-1.0, 0.0, |w| w * w.exp() - x)
}

/// Where a rising function is 0.
fn bisect(mut from: f64, mut to: f64, rises: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = f64::midpoint(from, to);
        if rises(middle) < 0.0 { from = middle } else { to = middle }
    }
    f64::midpoint(from, to)
}

/// Uniform overwrites; the block that was written first is cleaned: `a / (a + W(-a e^-a))`. Also the
/// limit of greedy cleaning for large blocks.
pub fn fifo(alpha: f64) -> f64 {
    alpha / (alpha + lambert_w(-alpha * (-alpha).exp()))
}

/// Uniform overwrites; the block with the fewest valid of its `pages` is cleaned.
pub fn greedy(alpha: f64, pages: u32) -> f64 {
    let pages = f64::from(pages);
    let scaled = (1.0 + 0.5 / pages) * alpha;
    let cleaned = 0.5 - pages / alpha * lambert_w(-scaled * (-scaled).exp());
    pages / (pages - (cleaned - 1.0))
}

/// Overwrites of parts with rates of their own, in the same blocks; the block that was written first is
/// cleaned. A page is overwritten before that with a probability that depends on its part.
pub fn fifo_of_parts(alpha: f64, parts: &[Part]) -> f64 {
    let copies = |amplification: f64| -> f64 {
        let of_part = |part: &Part| {
            let rate = part.writes / part.data;
            part.writes / -(-rate * alpha / amplification).exp_m1()
        };
        parts.iter().map(of_part).sum()
    };
    bisect(1.0, 1e6, |amplification| amplification - copies(amplification))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-6
    }

    #[test]
    fn limits_are_those_of_the_theory() {
        assert!(near(fifo(2.0), 2.0 / (2.0 + lambert_w(-2.0 * (-2.0_f64).exp()))));
        for alpha in [1.07, 1.28, 1.5] {
            assert!((greedy(alpha, 1 << 20) / fifo(alpha) - 1.0).abs() < 1e-4);
            assert!(greedy(alpha, 32) < greedy(alpha, 64) && greedy(alpha, 64) < fifo(alpha));
            let whole = [Part { data: 1.0, writes: 1.0 }];
            assert!(near(fifo_of_parts(alpha, &whole), fifo(alpha)));
            let even = [Part { data: 0.2, writes: 0.2 }, Part { data: 0.8, writes: 0.8 }];
            assert!(near(fifo_of_parts(alpha, &even), fifo(alpha)));
            let skewed = [Part { data: 0.2, writes: 0.8 }, Part { data: 0.8, writes: 0.2 }];
            assert!(fifo_of_parts(alpha, &skewed) > fifo(alpha));
        }
    }

    /// Xiang and Kurkoski, "An Improved Analytical Expression for Write Amplification in NAND Flash",
    /// 2012: 2.36 with over-provisioning of 0.3.
    #[test]
    fn an_independent_publication_has_the_same_figure() {
        assert!((fifo(1.3) - 2.36).abs() < 0.01);
    }
}
