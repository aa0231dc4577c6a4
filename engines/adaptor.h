/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The adaptor turns a list of stages into a fio engine. The file of an engine is short: it has a
 * table of options, a plan hook that switches stages on, and get_ioengine().
 */
#ifndef KP_ADAPTOR_H
#define KP_ADAPTOR_H

#include "fio_compat.h"
#include "optgroup.h"

#include "kpolicy.h"

#define KP_PLAN_STAGES 8

/*
 * struct kp_engine_options - the options that every engine has. The option struct of an engine
 * begins with it.
 */
struct kp_engine_options {
	void *pad; /* fio stores a pointer to the job's thread_data here */
	char *policy;
	char *plug;
	char *kernel;
	char *counters;
	char *null_completion;
	unsigned long long null_completion_nsec;
	struct kp_device_config device;
};

/* Can fio store an option of type TYPE into LVALUE? */
#define OPTION_FITS(LVALUE, TYPE) \
	_Generic((LVALUE),                                                                    \
		unsigned int: (TYPE) == FIO_OPT_INT || (TYPE) == FIO_OPT_BOOL,                \
		int: (TYPE) == FIO_OPT_INT,                                                   \
		unsigned long long: (TYPE) == FIO_OPT_STR_VAL,                                \
		char *: (TYPE) == FIO_OPT_STR_STORE,                                          \
		const char *: (TYPE) == FIO_OPT_STR_STORE)

/*
 * OPTION - a row of an engine's option table: fio stores NAME=VALUE into FIELD of STRUCT, which
 * may be a field of an embedded option struct of the library. A field whose type does not fit
 * TYPE, or at offset 0, which fio takes for no field at all, does not compile.
 */
#define OPTION(STRUCT, FIELD, NAME, TYPE, HELP, ...)                                    \
	{                                                                               \
		.name = #NAME, .lname = #NAME, .type = TYPE,                            \
		.off1 = offsetof(STRUCT, FIELD) +                                       \
			0 * sizeof(char[OPTION_FITS(((STRUCT *)0)->FIELD, TYPE) &&      \
							offsetof(STRUCT, FIELD)         \
						? 1                                     \
						: -1]),                                 \
		.help = HELP, .category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID, \
		__VA_ARGS__                                                             \
	}

/* struct kp_plan - the stages that the options of a job switch on, from top to bottom. */
struct kp_plan {
	struct kp_stage_config stages[KP_PLAN_STAGES];
	unsigned int nr_stages;
	const struct kp_plug_options *plug_options; /* NULL: defaults */
};

/* enum kp_engine_plug - when a job has the plug below its stages. plug= overrides this. */
enum kp_engine_plug {
	KP_PLUG_ASKED,	/* only with plug=: the policy works above requests */
	KP_PLUG_KERNEL, /* with kernel=VERSION, too: the plug of that kernel */
	KP_PLUG_ALWAYS, /* unless policy=none: that of kernel=, or the default variant */
};

/* struct kp_engine - what an engine tells the adaptor. */
struct kp_engine {
	const char *name;
	/*
	 * The policies that the engine may switch on, in the order of kp_policies, then NULL.
	 * policy= selects the variant of the first one. The plug is not listed: every engine can
	 * have it. Required.
	 */
	const struct kp_policy *const *policies;
	/* When the jobs of the engine have the plug. */
	enum kp_engine_plug plug;
	/* The options of this engine alone, without an end marker. Optional. */
	const struct fio_option *options;
	unsigned int nr_options;
	/* Size of the option struct, which begins with struct kp_engine_options. Required. */
	size_t options_size;
	/*
	 * Add the stages that @options ask for. The options of a stage must live as long as the
	 * job. Return: 0, or -errno with one line in @why. Required.
	 */
	int (*plan)(const struct kp_engine_options *options, struct kp_plan *plan, char *why,
		    size_t why_size);
};

/*
 * kp_plan_policy - add the stage of @policy to a plan, unless @name is "none".
 * @name: policy=NAME, or NULL.
 * @kernel: kernel=VERSION, or NULL.
 * @options: the option struct of the stage, or NULL.
 *
 * Return: 0, or -errno with one line in @why.
 */
int kp_plan_policy(struct kp_plan *plan, const struct kp_policy *policy, const char *name,
		   const char *kernel, const void *options, char *why, size_t why_size);

/* kp_adaptor_ops - the ops of @engine for fio, or NULL if there is no shared memory (printed). */
struct ioengine_ops *kp_adaptor_ops(const struct kp_engine *engine);

/*
 * KP_ENGINE - define get_ioengine(), the one symbol that fio looks for. The gate must compare the
 * version of fio with that of the headers before anything else reads a struct of fio.
 */
#define KP_ENGINE(engine)                                 \
	void get_ioengine(struct ioengine_ops **ops)      \
	{                                                 \
		if (kp_fio_gate((engine).name))           \
			*ops = kp_adaptor_ops(&(engine)); \
	}

#endif
