// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/api_json.h"
#include "daemon/os/json_text.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum field_kind {
	FIELD_PID,
	FIELD_UNSIGNED,
	FIELD_SECONDS,
	FIELD_PERCENT,
	FIELD_BOOL,
	FIELD_TEXT,
	FIELD_FUNCTIONS,
	FIELD_FACTOR,
};

struct field {
	const char *name;
	enum field_kind kind;
	size_t offset;       /* in struct api_attach */
	json_int_t min, max; /* of numbers; max of a text: the bytes of its place */
};

static const struct field attach_fields[] = {
	{ "pid", FIELD_PID, offsetof(struct api_attach, options.pid), 1, API_MAX_PID },
	{ "rate_hz", FIELD_UNSIGNED, offsetof(struct api_attach, options.rate_hz), ENGINE_MIN_RATE_HZ,
	  ENGINE_MAX_RATE_HZ },
	{ "duration_s", FIELD_SECONDS, offsetof(struct api_attach, options.duration_s), 0, API_MAX_DURATION_S },
	{ "children", FIELD_BOOL, offsetof(struct api_attach, options.children), 0, 0 },
	{ "kernel", FIELD_BOOL, offsetof(struct api_attach, options.kernel), 0, 0 },
	{ "keep", FIELD_BOOL, offsetof(struct api_attach, options.keep), 0, 0 },
	{ "wall", FIELD_BOOL, offsetof(struct api_attach, options.wall), 0, 0 },
	{ "timed", FIELD_BOOL, offsetof(struct api_attach, options.timed), 0, 0 },
	{ "memory", FIELD_BOOL, offsetof(struct api_attach, options.memory), 0, 0 },
	{ "gpu_memory", FIELD_BOOL, offsetof(struct api_attach, options.gpu_memory), 0, 0 },
	{ "allocations", FIELD_BOOL, offsetof(struct api_attach, options.allocations), 0, 0 },
	{ "step", FIELD_TEXT, offsetof(struct api_attach, options.step), 0,
	  sizeof(((struct api_attach *)0)->options.step) },
	{ "counted", FIELD_FUNCTIONS, offsetof(struct api_attach, options.counted), 0, SO_MARKS - 1 },
	{ "skip_steps", FIELD_UNSIGNED, offsetof(struct api_attach, options.skip_steps), 0, API_MAX_STEPS },
	{ "steps", FIELD_UNSIGNED, offsetof(struct api_attach, options.steps), 1, API_MAX_STEPS },
	{ "until_slow", FIELD_FACTOR, offsetof(struct api_attach, options.until_slow), 1, 1000 },
	{ "cuda", FIELD_BOOL, offsetof(struct api_attach, options.cuda), 0, 0 },
	{ "save_on", FIELD_TEXT, offsetof(struct api_attach, save_on), 0, INCIDENT_RULE_TEXT },
	{ "save_last_s", FIELD_SECONDS, offsetof(struct api_attach, incidents.last_s), 1, INCIDENTS_MAX_LAST_S },
	{ "save_pause_s", FIELD_SECONDS, offsetof(struct api_attach, incidents.pause_s), 1, INCIDENTS_MAX_PAUSE_S },
	{ "cuda_budget_percent", FIELD_PERCENT, offsetof(struct api_attach, options.cuda_budget_percent), 0, 100 },
};

static const char *const state_words[] = {
	[TARGET_ATTACHING] = "attaching",
	[TARGET_SAMPLING] = "sampling",
	[TARGET_ENDED] = "ended",
};

static const char *const end_words[] = {
	[TARGET_END_DURATION] = "duration",
	[TARGET_END_EXITED] = "exited",
	[TARGET_END_STOPPED] = "stopped",
	[TARGET_END_FAILED] = "failed",
};

static const char *word(const char *const *words, size_t n, unsigned i)
{
	return i < n ? words[i] : NULL;
}

static int decode_whole(const struct field *field, const json_t *value, json_int_t *out, struct so_error *err)
{
	if (!json_is_integer(value) || json_integer_value(value) < field->min || json_integer_value(value) > field->max)
		return so_err(err, -EINVAL, "%s must be a whole number from %lld to %lld", field->name,
			      (long long)field->min, (long long)field->max);
	*out = json_integer_value(value);
	return 0;
}

/* size: of its place. */
static int decode_text(const char *name, const json_t *value, char *at, size_t size, struct so_error *err)
{
	if (!json_is_string(value) || json_string_length(value) >= size ||
	    strlen(json_string_value(value)) != json_string_length(value) || !json_string_length(value))
		return so_err(err, -EINVAL, "%s must be a text of at most %zu bytes", name, size - 1);
	strcpy(at, json_string_value(value));
	return 0;
}

static int decode_functions(const struct field *field, const json_t *value, struct attach_options *options,
			    struct so_error *err)
{
	int ret = 0;

	if (!json_is_array(value) || (json_int_t)json_array_size(value) > field->max)
		return so_err(err, -EINVAL, "%s must be a list of at most %lld functions", field->name,
			      (long long)field->max);
	for (size_t i = 0; !ret && i < json_array_size(value); i++)
		ret = decode_text(field->name, json_array_get(value, i), options->counted[i],
				  sizeof(options->counted[i]), err);
	return ret;
}

static int decode(const struct field *field, const json_t *value, struct api_attach *attach, struct so_error *err)
{
	void *at = (char *)attach + field->offset;
	json_int_t whole = 0;
	double seconds;
	int ret;

	switch (field->kind) {
	case FIELD_PID:
		ret = decode_whole(field, value, &whole, err);
		if (!ret)
			*(pid_t *)at = whole;
		return ret;
	case FIELD_UNSIGNED:
		ret = decode_whole(field, value, &whole, err);
		if (!ret)
			*(unsigned *)at = whole;
		return ret;
	case FIELD_SECONDS:
		seconds = json_number_value(value);
		if (!json_is_number(value) || !(seconds >= field->min && seconds <= field->max))
			return so_err(err, -EINVAL, "%s must be a number of seconds from %lld%s to %lld", field->name,
				      (long long)field->min, field->min ? "" : " (until stopped)",
				      (long long)field->max);
		*(double *)at = seconds;
		return 0;
	case FIELD_PERCENT:
		seconds = json_number_value(value);
		if (!json_is_number(value) || !(seconds > 0 && seconds <= field->max))
			return so_err(err, -EINVAL, "%s must be a number above 0, up to %lld", field->name,
				      (long long)field->max);
		*(double *)at = seconds;
		return 0;
	case FIELD_BOOL:
		if (!json_is_boolean(value))
			return so_err(err, -EINVAL, "%s must be true or false", field->name);
		*(bool *)at = json_is_true(value);
		return 0;
	case FIELD_FACTOR:
		seconds = json_number_value(value);
		if (!json_is_number(value) || !(seconds >= field->min && seconds <= field->max))
			return so_err(err, -EINVAL, "%s must be a number from %lld to %lld", field->name,
				      (long long)field->min, (long long)field->max);
		*(double *)at = seconds;
		return 0;
	case FIELD_TEXT:
		return decode_text(field->name, value, at, (size_t)field->max, err);
	case FIELD_FUNCTIONS:
		return decode_functions(field, value, &attach->options, err);
	}
	return so_err(err, -EINVAL, "%s is of no known kind", field->name);
}

static int decode_field(const char *name, const json_t *value, struct api_attach *attach, struct so_error *err)
{
	for (size_t i = 0; i < sizeof(attach_fields) / sizeof(attach_fields[0]); i++)
		if (!strcmp(attach_fields[i].name, name))
			return decode(&attach_fields[i], value, attach, err);
	return so_err(err, -EINVAL, "unknown field '%.60s'", name);
}

/* Of that the memory on GPUs is kept, not the latest seconds. */
static bool is_oom_alone(const struct incident_options *options)
{
	return options->n_rules == 1 && options->rules[0].kind == INCIDENT_OOM;
}

/* What has to go together. */
static int check_attach(struct api_attach *attach, struct so_error *err)
{
	const struct attach_options *o = &attach->options;
	int ret;

	if (!o->pid)
		return so_err(err, -EINVAL, "pid is missing");
	if (o->until_slow > 0 && !o->step[0])
		return so_err(err, -EINVAL, "until_slow needs step: the function that begins one");
	if ((o->steps || o->skip_steps) && (!o->step[0] || !o->steps))
		return so_err(err, -EINVAL, "skip_steps needs steps, and that step: the function that begins one");
	if (o->steps && (o->keep || o->until_slow > 0 || attach->save_on[0]))
		return so_err(err, -EINVAL, "steps goes with neither keep nor until_slow nor save_on");
	if (!attach->save_on[0])
		return attach->incidents.last_s > 0 || attach->incidents.pause_s > 0
			       ? so_err(err, -EINVAL, "save_last_s and save_pause_s need save_on: when to save")
			       : 0;
	ret = incident_rules__parse(attach->save_on, attach->incidents.rules, &attach->incidents.n_rules, err);
	if (ret)
		return -EINVAL;
	if (!o->keep || (!o->timed && !is_oom_alone(&attach->incidents)))
		return so_err(err, -EINVAL, "save_on needs keep and timed: what is saved are the latest seconds");
	incidents__prepare(&attach->incidents, &attach->options);
	if ((o->slow_factor > 0 || o->slow_ns) && !o->step[0])
		return so_err(err, -EINVAL, "a rule about steps needs step: the function that begins one");
	for (size_t i = 0; i < attach->incidents.n_rules; i++)
		if (attach->incidents.rules[i].kind == INCIDENT_GPU && !o->cuda)
			return so_err(err, -EINVAL, "a rule about the GPU needs cuda: which GPUs it uses");
	for (size_t i = 0; i < attach->incidents.n_rules; i++)
		if (attach->incidents.rules[i].kind == INCIDENT_OOM && !o->gpu_memory)
			return so_err(err, -EINVAL, "oom needs gpu_memory: what PyTorch has on GPUs");
	return 0;
}

int api_json__attach(const char *body, size_t length, struct api_attach *out, struct so_error *err)
{
	struct api_attach attach = {
		.options = { .rate_hz = ENGINE_DEFAULT_RATE_HZ, .children = true, .kernel = true },
	};
	json_error_t why;
	json_t *root = json_loadb(body, length, JSON_REJECT_DUPLICATES, &why), *value;
	const char *name;
	int ret = 0;

	if (!root)
		return so_err(err, -EINVAL, "the body is not JSON: %.*s (line %d, column %d)",
			      (int)strcspn(why.text, "\n"), why.text, why.line, why.column);
	if (!json_is_object(root))
		ret = so_err(err, -EINVAL, "the body must be a JSON object");
	json_object_foreach (root, name, value) {
		if (!ret)
			ret = decode_field(name, value, &attach, err);
	}
	json_decref(root);
	ret = ret ?: check_attach(&attach, err);
	if (!ret)
		*out = attach;
	return ret;
}

static json_t *figures_json(const struct target_info *info)
{
	char comm[sizeof(info->comm) + 1] = "";

	memcpy(comm, info->comm, sizeof(info->comm));
	return json_pack("{s:I, s:i, s:I, s:o, s:s?, s:s?, s:i, s:b, s:b, s:b, s:b, s:b, s:f, s:i, s:I, s:I}", "id",
			 (json_int_t)info->id, "pid", (int)info->pid, "uid", (json_int_t)info->uid, "comm",
			 json_text__new(comm), "state",
			 word(state_words, sizeof(state_words) / sizeof(state_words[0]), info->state), "end",
			 word(end_words, sizeof(end_words) / sizeof(end_words[0]), info->end), "rate_hz",
			 (int)info->rate_hz, "children", (int)info->children, "kernel", (int)info->kernel, "keep",
			 (int)info->keep, "wall", (int)info->wall, "timed", (int)info->timed, "elapsed_s",
			 isfinite(info->elapsed_s) ? round(info->elapsed_s * 1e3) / 1e3 : 0.0, "processes",
			 (int)info->processes, "samples", (json_int_t)info->samples, "lost", (json_int_t)info->lost);
}

/* Those that are known. */
static json_t *labels_json(const struct process_labels *labels)
{
	const struct {
		const char *name, *value;
	} all[] = {
		{ "rank", labels->rank },
		{ "local_rank", labels->local_rank },
		{ "world_size", labels->world_size },
		{ "container", labels->container },
		{ "pod", labels->pod },
	};
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].value[0])
			json_object_set_new(object, all[i].name, json_string(all[i].value));
	}
	return object;
}

json_t *api_json__target(const struct target_info *info)
{
	json_t *target = figures_json(info);

	json_object_set_new(target, "rule", info->rule ? json_integer(info->rule) : json_null());
	json_object_set_new(target, "slow_step",
			    info->slow_step_ns ? json_pack("{s:I, s:I}", "ns", (json_int_t)info->slow_step_ns, "p95_ns",
							   (json_int_t)info->usual_step_ns)
					       : json_null());
	json_object_set_new(target, "labels", labels_json(&info->labels));
	return target;
}
