// SPDX-License-Identifier: GPL-2.0-or-later
// Rounds of recursion, sines and a hash map, in methods that are soon compiled and are called from ones that stay
// interpreted, until it is ended.
import java.util.HashMap;

public class Rounds {
    static double fill(int n) {
        HashMap<Integer, String> names = new HashMap<>();
        double sum = 0;
        for (int i = 0; i < n; i++) {
            names.put(i % 1000, Integer.toString(i));
            sum += Math.sin(i) + names.get(i % 1000).length();
        }
        return sum;
    }

    static double descend(int depth) {
        return depth == 0 ? fill(2000) : descend(depth - 1) + 1;
    }

    public static void main(String[] arguments) {
        double sum = 0;
        // An end that is possible: a loop without one has no return from which a rule could be learned, once it is compiled.
        for (long round = 0; sum < Double.MAX_VALUE; round++) {
            sum += descend(20);
            // The first rounds are interpreted, and in code that is thrown away.
            if (round == Integer.parseInt(arguments[0])) System.out.println("ready");
        }
    }
}
