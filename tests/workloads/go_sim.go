// SPDX-License-Identifier: GPL-2.0-or-later

// A Go program that works on the stacks that its runtime goes to and comes back from: in C, in the runtime's own
// functions, in calls of the kernel's clock, and on goroutines' stacks that grow.
package main

/*
#include <stdio.h>

static unsigned long mix(unsigned long x, int n)
{
	for (int i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

__attribute__((noipa)) unsigned long c_inner(unsigned long x)
{
	return mix(x, 1000000) + 1;
}

__attribute__((noipa)) unsigned long c_outer(unsigned long x)
{
	return c_inner(x) + 1;
}

static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}
*/
import "C"

import "time"

//go:noinline
func goWork(x uint64) uint64 {
	for i := 0; i < 1000000; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

//go:noinline
func inC(x uint64) uint64 { return uint64(C.c_outer(C.ulong(x))) }

//go:noinline
func inGo(x uint64) uint64 { return goWork(x) }

//go:noinline
func readClock() (sum int64) {
	for i := 0; i < 20000; i++ {
		sum += time.Now().UnixNano()
	}
	return sum
}

//go:noinline
func grow(n int) int {
	var a [100]int
	if n == 0 {
		return 0
	}
	a[n%100] = grow(n - 1)
	return a[(n+1)%100] + 1
}

//go:noinline
func growStacks() {
	done := make(chan int)
	for i := 0; i < 4; i++ {
		go func() { done <- grow(300) }()
	}
	for i := 0; i < 4; i++ {
		<-done
	}
}

var kept [][]byte

//go:noinline
func allocate() {
	kept = nil
	for i := 0; i < 200; i++ {
		kept = append(kept, make([]byte, 20000))
	}
}

func worker(x uint64) {
	for {
		x = inGo(inC(x))
		readClock()
		growStacks()
		allocate()
	}
}

func main() {
	go worker(88172645463325252)
	C.say_ready()
	time.Sleep(10 * time.Minute)
}
