// SPDX-License-Identifier: GPL-2.0-or-later
// Works from a timer, in optimised code that calls into C++ and back, until it is ended.
"use strict";

function encode(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += Math.sin(i) * JSON.stringify({ step: i }).length;
  return sum;
}

let turns = 0;
setInterval(() => {
  encode(20000);
  // The first turns run in the interpreter and in code that is thrown away.
  if (++turns === 100) console.log("ready");
}, 1);
