// SPDX-License-Identifier: GPL-2.0-or-later
//
// A Rust program without frame pointers: worker threads that sort, hash and sum behind trait objects.
// Usage: rust_sim [seconds] [threads]
use std::collections::HashMap;
use std::time::{Duration, Instant};

trait Stage {
    fn run(&self, values: &mut Vec<u64>);
}

struct Scramble;
struct Sort;
struct Count;

impl Stage for Scramble {
    #[inline(never)]
    fn run(&self, values: &mut Vec<u64>) {
        let mut x = 88172645463325252u64;
        for value in values.iter_mut() {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            *value = x;
        }
    }
}

impl Stage for Sort {
    #[inline(never)]
    fn run(&self, values: &mut Vec<u64>) {
        values.sort_by_key(|value| value.rotate_left(17));
    }
}

impl Stage for Count {
    #[inline(never)]
    fn run(&self, values: &mut Vec<u64>) {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for value in values.iter() {
            *counts.entry(value % 100).or_insert(0) += 1;
        }
        values[0] = counts.values().map(|count| count * count).sum();
    }
}

#[inline(never)]
fn run_pipeline(stages: &[Box<dyn Stage>]) -> u64 {
    let mut values = vec![0u64; 20000];
    for stage in stages {
        stage.run(&mut values);
    }
    values[0]
}

fn worker(deadline: Instant) -> u64 {
    let stages: Vec<Box<dyn Stage>> = vec![Box::new(Scramble), Box::new(Sort), Box::new(Count)];
    let first = run_pipeline(&stages);
    while Instant::now() < deadline {
        assert_eq!(first, run_pipeline(&stages));
    }
    first
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize, fallback: f64| arguments.get(i).and_then(|a| a.parse().ok()).unwrap_or(fallback);
    let deadline = Instant::now() + Duration::from_secs_f64(number(1, 10.0));
    let workers: Vec<_> = (0..number(2, 2.0) as usize)
        .map(|_| std::thread::spawn(move || worker(deadline)))
        .collect();
    println!("ready");
    let results: Vec<u64> = workers.into_iter().map(|w| w.join().unwrap()).collect();
    println!("checksum {:016x}", results[0]);
}
