//! The cost of each kernel for a block of 4,096 entries, at every level that the machine has.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use siltstone_benches::Numbers;
use siltstone_core::simd::Level;
use siltstone_core::simd::columns::{BLOCK, Column, Sums, set_columns};
use siltstone_core::simd::lanes::reached;
use siltstone_core::simd::scan::{GROUP, factor, next_above, root};

fn bench(criterion: &mut Criterion) {
    let mut numbers = Numbers::new(7);
    let mut below = |bound: usize| u16::try_from(numbers.below(bound)).expect("small");
    let columns: [Column; 3] = std::array::from_fn(|_| {
        let mut column = Column::default();
        for entry in (0..).take(BLOCK) {
            column.set(entry, below(4) / 3 * (1 + below(3)));
        }
        column
    });
    let columns: Vec<(&Column, u16)> = columns.iter().zip([1, 2, 1]).collect();
    let norms: Vec<[f32; GROUP]> = (0..BLOCK / GROUP)
        .map(|_| std::array::from_fn(|_| f32::from(40 + below(200))))
        .collect();

    let roots: Vec<[u16; GROUP]> = norms.iter().map(|norms| norms.map(root)).collect();

    let mut group = criterion.benchmark_group("block");
    group.throughput(Throughput::Elements(BLOCK as u64));
    let sums = check(Level::PORTABLE, &columns);
    let (groups, _) = sums.as_chunks::<GROUP>();
    let least = reached(groups, &norms, 10.0, 10);
    assert!(least > 0.0 && least < 10.0);
    group.bench_function("reached", |bencher| {
        bencher.iter(|| reached(black_box(groups), &norms, 10.0, 10));
    });
    let far = factor(10.0); // no entry is that near
    assert_eq!(next_above(groups, &roots, far, 0), None);
    group.bench_function("scan", |bencher| {
        bencher.iter(|| next_above(black_box(groups), &roots, far, 0));
    });
    for level in Level::all() {
        check(level, &columns);
        group.bench_function(format!("columns/3/{level}"), |bencher| {
            let mut sums: Sums = [0; BLOCK];
            bencher.iter(|| set_columns(level, black_box(&mut sums), BLOCK, black_box(&columns)));
        });
    }
    group.finish();
}

/// Panics unless the sums are those that entry by entry come out.
fn check(level: Level, columns: &[(&Column, u16)]) -> Sums {
    let mut sums: Sums = [0; BLOCK];
    set_columns(level, &mut sums, BLOCK, columns);
    for (entry, &sum) in (0..).zip(&sums) {
        let products = columns
            .iter()
            .map(|(column, weight)| column.get(entry) * weight);
        assert_eq!(sum, products.sum::<u16>(), "{level}");
    }
    sums
}

criterion_group!(benches, bench);
criterion_main!(benches);
