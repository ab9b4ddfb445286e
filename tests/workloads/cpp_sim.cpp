// SPDX-License-Identifier: GPL-2.0-or-later
//
// The demo: a small simulator as reinforcement learning uses them. Every worker thread steps a batch of worlds
// (bodies that attract and collide), writes observations, asks a policy (a small neural network) for actions and
// keeps score; worlds that end do so by an exception. Usage: cpp_sim [seconds] [threads]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "work.h"

namespace sim
{

class Random
{
      public:
	explicit Random(uint64_t seed) : state(seed * 2 + 1)
	{
	}
	double uniform()
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		return static_cast<double>(state >> 11) * 0x1p-53;
	}

      private:
	uint64_t state;
};

struct Vector2 {
	double x = 0, y = 0;
};

struct Body {
	Vector2 at, speed;
	double mass = 1;
	int id = 0;
};

struct EpisodeOver : std::runtime_error {
	using std::runtime_error::runtime_error;
};

// What acts on the bodies of a world in each step.
class Force
{
      public:
	virtual ~Force() = default;
	virtual void apply(std::vector<Body> &bodies, double dt) const = 0;
};

class Gravity : public Force
{
      public:
	FRAME void apply(std::vector<Body> &bodies, double dt) const override
	{
		for (Body &a : bodies)
			for (const Body &b : bodies) {
				double dx = b.at.x - a.at.x, dy = b.at.y - a.at.y;
				double d2 = dx * dx + dy * dy + 0.01, pull = b.mass * dt / (d2 * std::sqrt(d2));

				a.speed.x += dx * pull * 1e-3;
				a.speed.y += dy * pull * 1e-3;
			}
	}
};

class Friction : public Force
{
      public:
	FRAME void apply(std::vector<Body> &bodies, double dt) const override
	{
		for (Body &body : bodies) {
			double slow = std::exp(-dt * std::hypot(body.speed.x, body.speed.y));

			body.speed.x *= slow;
			body.speed.y *= slow;
		}
	}
};

// A dense layer of a neural network; the activation is a template argument so that it is inlined.
template <typename T, size_t In, size_t Out, typename Activation> class Layer
{
      public:
	explicit Layer(Random &random)
	{
		for (auto &row : weights)
			for (auto &weight : row)
				weight = static_cast<T>(random.uniform() - 0.5);
	}
	FRAME std::array<T, Out> forward(const std::array<T, In> &in) const
	{
		std::array<T, Out> out{};

		for (size_t i = 0; i < Out; i++) {
			T sum = 0;

			for (size_t j = 0; j < In; j++)
				sum += weights[i][j] * in[j];
			out[i] = Activation()(sum);
		}
		return out;
	}

      private:
	std::array<std::array<T, In>, Out> weights;
};

struct Tanh {
	float operator()(float x) const
	{
		return std::tanh(x);
	}
};

struct Identity {
	float operator()(float x) const
	{
		return x;
	}
};

constexpr size_t N_BODIES = 16, N_OBSERVED = 2 * N_BODIES, N_HIDDEN = 32, N_ACTIONS = 4;

class Policy
{
      public:
	explicit Policy(Random random) : hidden(random), head(random)
	{
	}
	FRAME size_t choose(const std::array<float, N_OBSERVED> &observation) const
	{
		auto scores = head.forward(hidden.forward(observation));

		return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
	}

      private:
	Layer<float, N_OBSERVED, N_HIDDEN, Tanh> hidden;
	Layer<float, N_HIDDEN, N_ACTIONS, Identity> head;
};

class World
{
      public:
	explicit World(uint64_t seed) : random(seed)
	{
		forces.push_back(std::make_unique<Gravity>());
		forces.push_back(std::make_unique<Friction>());
		reset();
	}
	FRAME void step(size_t action)
	{
		bodies[0].speed.x += action == 0 ? 0.1 : action == 1 ? -0.1 : 0;
		bodies[0].speed.y += action == 2 ? 0.1 : action == 3 ? -0.1 : 0;
		for (const auto &force : forces)
			force->apply(bodies, 0.05);
		move();
		collide();
		if (++steps == 50)
			throw EpisodeOver("time is over");
	}
	// The bodies as a player sees them: sorted by distance.
	FRAME std::array<float, N_OBSERVED> observe() const
	{
		std::array<float, N_OBSERVED> seen{};
		std::vector<Body> sorted = bodies;
		Vector2 me = bodies[0].at;

		std::sort(sorted.begin(), sorted.end(), [me](const Body &a, const Body &b) {
			double da = std::hypot(a.at.x - me.x, a.at.y - me.y);
			double db = std::hypot(b.at.x - me.x, b.at.y - me.y);

			return da < db || (da == db && a.id < b.id);
		});
		for (size_t i = 0; i < N_BODIES; i++) {
			seen[2 * i] = static_cast<float>(sorted[i].at.x - me.x);
			seen[2 * i + 1] = static_cast<float>(sorted[i].at.y - me.y);
		}
		return seen;
	}
	void reset()
	{
		steps = 0;
		bodies.assign(N_BODIES, Body());
		for (size_t i = 0; i < N_BODIES; i++) {
			bodies[i].at = { random.uniform(), random.uniform() };
			bodies[i].id = static_cast<int>(i);
		}
	}
	double score() const
	{
		return bodies[0].at.x + bodies[0].at.y;
	}

      private:
	FRAME void move()
	{
		for (Body &body : bodies) {
			body.at.x += body.speed.x * 0.05;
			body.at.y += body.speed.y * 0.05;
		}
	}
	FRAME void collide()
	{
		for (Body &body : bodies) {
			if (body.at.x < 0 || body.at.x > 1)
				body.speed.x = -body.speed.x;
			if (body.at.y < 0 || body.at.y > 1)
				body.speed.y = -body.speed.y;
		}
	}

	Random random;
	std::vector<std::unique_ptr<Force>> forces;
	std::vector<Body> bodies;
	int steps = 0;
};

class ScoreBoard
{
      public:
	FRAME void record(size_t world, double score)
	{
		best["world-" + std::to_string(world)] += score;
	}
	double sum() const
	{
		double all = 0;

		for (const auto &entry : best)
			all += entry.second;
		return all;
	}

      private:
	std::map<std::string, double> best;
};

FRAME void step_world(World &world, const Policy &policy, ScoreBoard &board, size_t number)
{
	try {
		world.step(policy.choose(world.observe()));
	} catch (const EpisodeOver &) {
		board.record(number, world.score());
		world.reset();
	}
}

// One epoch: the same worlds, the same actions, the same scores each time.
FRAME uint64_t run_epoch(uint64_t seed)
{
	Policy policy{ Random(seed) };
	ScoreBoard board;

	for (size_t number = 0; number < 8; number++) {
		World world(seed + number);

		for (int i = 0; i < 100; i++)
			step_world(world, policy, board, number);
	}
	return static_cast<uint64_t>(board.sum() * 1e9);
}

} // namespace sim

static void run_worker(double deadline, uint64_t *result)
{
	while (work__now_s() < deadline)
		work__same(result, sim::run_epoch(42));
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);
	size_t n = argc > 2 ? static_cast<size_t>(atoi(argv[2])) : 2;
	std::vector<uint64_t> results(n);
	std::vector<std::thread> workers;
	uint64_t first = 0;

	for (size_t i = 0; i < n; i++)
		workers.emplace_back(run_worker, deadline, &results[i]);
	work__ready();
	for (auto &worker : workers)
		worker.join();
	for (uint64_t result : results)
		if (result)
			work__same(&first, result);
	return work__done(first);
}
