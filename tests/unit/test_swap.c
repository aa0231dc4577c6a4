// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rewriting of job files: reader, engine exchange, command lines, targets, device safety.
 * A shell script stands in for fio where one is asked for its options; the real one has its turn
 * in tests/fio/kpolicy-show.sh.
 *
 * In the environment: SWAP_FUZZ=N is the number of random job files per seed (500; 20000 is a long
 * run), SWAP_SEEDS=DIR a directory whose *.fio they are made from.
 */
#include <check.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "job/cmdline.h"
#include "job/fioinfo.h"
#include "job/jobfile.h"
#include "job/safety.h"
#include "job/subst.h"
#include "job/swap.h"
#include "job/targets.h"
#include "util/util.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define SO	      "/engines/split.so"

/* The default test variant on libaio. */
#define SPLIT "ioengine=external:" SO "\npolicy=4.9\nbackend="

static const char fake_fio[] =
	"#!/bin/sh\n"
	"flag='type: empty or boolean value ([0|1])' value='type: integer value (opt=100)'\n"
	"case $1 in\n"
	"--cmdhelp=time_based|--cmdhelp=stonewall|--cmdhelp=group_reporting) echo \"$flag\" ;;\n"
	"--cmdhelp=name|--cmdhelp=rw|--cmdhelp=bs|--cmdhelp=size|--cmdhelp=runtime) echo "
	"\"$value\" ;;\n"
	"--cmdhelp=filename|--cmdhelp=directory|--cmdhelp=ioengine) echo \"$value\" ;;\n"
	"--cmdhelp=iodepth|--cmdhelp=direct|--cmdhelp=numjobs) echo \"$value\" ;;\n"
	"--cmdhelp=*) echo \"No such command: $1\"; exit 1 ;;\n"
	"--enghelp=io_uring,hipri) echo \"$flag\" ;;\n"
	"--enghelp=*,*) ;;\n"
	"--enghelp=libaio) echo 'userspace_reap          : Use it' ;;\n"
	"--enghelp=io_uring) echo 'hipri          : Poll'; echo '  fixedbufs : Map' ;;\n"
	"--enghelp=/x/diolock.so) echo 'lock_option : L'; echo 'null_mbps : N' ;;\n"
	"--enghelp=/engines/split.so) echo 'policy : P'; echo 'null_mbps : N'; "
	"echo 'null_submit_nsec : S'; echo 'backend : B' ;;\n"
	"--enghelp=*) exit 1 ;;\n"
	"esac\n";

static char dir[] = "/tmp/kpolicy-swap-XXXXXX";
static char fio_path[64];

static void write_file(const char *path, const char *text)
{
	FILE *out = fopen(path, "w");

	ck_assert_ptr_nonnull(out);
	fputs(text, out);
	ck_assert_int_eq(fclose(out), 0);
}

/* Runs once, before the tests are forked; they share the directory. */
static void make_directory(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
	snprintf(fio_path, sizeof(fio_path), "%s/fio", dir);
	write_file(fio_path, fake_fio);
	ck_assert_int_eq(chmod(fio_path, 0755), 0);
	ck_assert_int_eq(mkdir("sub", 0755), 0);
	write_file("sub/outer.inc", "ioengine=libaio\ninclude inner.inc\n");
	write_file("sub/inner.inc", "; inner\niodepth=4");
	write_file("loop.inc", "include loop.inc\n");
	write_file("section.inc", "[no]\n");
	setenv("KP_ENGINE", "io_uring", 1);
	setenv("KP_BS", "8k", 1);
	unsetenv("KP_UNSET");
}

static void remove_directory(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command))
		fprintf(stderr, "cannot remove %s\n", dir);
}

/* A setting for swap_options, where it is only read. */
static struct setting setting(const char *key, const char *value)
{
	return (struct setting){ (char *)key, (char *)value };
}

static struct swap_options show_options(void)
{
	return (struct swap_options){ .fio = fio_path,
				      .engine_dir = "/engines",
				      .show_only = true };
}

static int swap_path(const char *path, const char *variant, const struct swap_options *opt,
		     struct swap_result *result, char **error)
{
	struct swap_input in = { .path = path };
	struct variant v;
	int ret;

	ck_assert_int_eq(variant_parse(variant, &v, error), 0);
	ret = swap_job(&in, &v, opt, result, error);
	variant_free(&v);
	return ret;
}

static int swap_text(const char *text, const char *variant, const struct swap_options *opt,
		     struct swap_result *result, char **error)
{
	/* ext4 writes a file out that is truncated and written again, and that takes long */
	unlink("job.fio");
	write_file("job.fio", text);
	return swap_path("job.fio", variant, opt, result, error);
}

/* --- variants --------------------------------------------------------------------------------- */

static const struct {
	const char *text, *engine, *policy, *kernel, *error;
} variants[] = {
	{ "native", NULL, NULL, NULL, NULL },
	{ "split:4.9", "split", "4.9", NULL, NULL },
	{ "split:kernel=4.9", "split", NULL, "4.9", NULL },
	{ "diolock:ext4-4.8,backend=null,null_submit_nsec=5", "diolock", "ext4-4.8", NULL, NULL },
	{ "diolock:fs=ext4,kernel=5.2", "diolock", NULL, "5.2", NULL },
	{ "writeback:jan", "writeback", "jan", NULL, NULL },
	{ "split:kernel=v6.1", "split", NULL, "v6.1", NULL },
	{ "split:kernel=6.1.0-18-amd64", "split", NULL, "6.1.0-18-amd64", NULL },
	{ "split:none", "split", "none", NULL, NULL },
	{ "split:nonee", NULL, NULL, NULL,
	  "variant 'split:nonee': split has no policy 'nonee'; did you mean 'none'?" },
	{ "split:zzzzzzzz", NULL, NULL, NULL,
	  "variant 'split:zzzzzzzz': split has no policy 'zzzzzzzz'; 'kpolicy list split' names "
	  "them" },
	{ "split:kernel=99.1", NULL, NULL, NULL,
	  "variant 'split:kernel=99.1': kernel=99.1: not known to split, give one of: 4.2, "
	  "4.3-rc1, 4.3 to 4.4, 4.5 to 4.12, 4.13 to 5.3, 5.4 to 5.19, 6.0 to 7.3" },
	{ "split:clone,kernel=5.4", NULL, NULL, NULL,
	  "variant 'split:clone,kernel=5.4': policy=clone kernel=5.4: that kernel has split=5.4, "
	  "give only one" },
	{ "stack:none", NULL, NULL, NULL,
	  "variant 'stack:none': no engine 'stack'; there are blocksize, diolock, checksum, "
	  "writeback, split and native" },
	{ "splt:4.9", NULL, NULL, NULL,
	  "variant 'splt:4.9': no engine 'splt'; did you mean 'split'?" },
	{ "nativ", NULL, NULL, NULL, "variant 'nativ': no engine 'nativ'; did you mean 'native'?" },
	{ "qwertyuiop:x", NULL, NULL, NULL,
	  "variant 'qwertyuiop:x': no engine 'qwertyuiop'; there are blocksize, diolock, checksum, "
	  "writeback, split and native" },
	{ "split", NULL, NULL, NULL,
	  "variant 'split' names no policy; write ENGINE:POLICY[,option=value...], "
	  "ENGINE:kernel=VERSION or native" },
	{ "split:", NULL, NULL, NULL,
	  "variant 'split:' names no policy; write ENGINE:POLICY[,option=value...], "
	  "ENGINE:kernel=VERSION or native" },
	{ "split:4.9,backend", NULL, NULL, NULL,
	  "variant 'split:4.9,backend': 'backend' is not of the form option=value" },
	{ "split:4.9,", NULL, NULL, NULL,
	  "variant 'split:4.9,': '' is not of the form option=value" },
	{ "split:=x", NULL, NULL, NULL,
	  "variant 'split:=x': '=x' is not of the form option=value" },
	{ "", NULL, NULL, NULL,
	  "variant '': no engine ''; there are blocksize, diolock, checksum, writeback, split "
	  "and native" },
};

static void assert_same(const char *label, const char *got, const char *expected)
{
	if (!got || !expected)
		ck_assert_msg(got == expected, "%s: got %s, expected %s", label,
			      got ? got : "nothing", expected ? expected : "nothing");
	else
		ck_assert_msg(!strcmp(got, expected), "%s:\n--- got\n%s\n--- expected\n%s", label,
			      got, expected);
}

START_TEST(test_variant)
{
	const char *text = variants[_i].text;
	struct variant v;
	char *error;
	int ret = variant_parse(text, &v, &error);

	ck_assert_msg(ret == (variants[_i].error ? -EINVAL : 0), "%s: %d", text, ret);
	assert_same(text, error, variants[_i].error);
	assert_same(text, v.engine, variants[_i].engine);
	assert_same(text, variant_setting(&v, "policy"), variants[_i].policy);
	assert_same(text, variant_setting(&v, "kernel"), variants[_i].kernel);
	free(error);
	variant_free(&v);
}
END_TEST

/* --- words ------------------------------------------------------------------------------------ */

static const struct {
	const char *option, *expected; /* P, M, C stand for the machine's figures */
} substitutions[] = {
	{ "bs=${KP_BS}", "bs=8k" },
	{ "bs=a${KP_UNSET}b${KP_BS}${KP_BS}", "bs=ab8k8k" },
	{ "bs=${KP_BS", "bs=${KP_BS" },
	{ "bs=$KP_BS", "bs=$KP_BS" },
	{ "name=$jobname", "name=$jobname" },
	{ "bs=4k-8k", "bs=4k-8k" }, /* no word, no arithmetic */
	{ "numjobs=$ncpus", "numjobs=C" },
	{ "numjobs=0*$ncpus+3", "numjobs=3" },
	{ "numjobs=(1+2)*4-10/3+0*$ncpus", "numjobs=9" },
	{ "numjobs=2*$ncpus/$ncpus", "numjobs=2" },
	{ "x=$ncpus/0", "x=C/0" },
	{ "x=$ncpus+", "x=C+" },
	{ "x=((((((((((((((((((((((((((((((((((1+$ncpus",
	  "x=((((((((((((((((((((((((((((((((((1+C" },
	{ "x=9223372036854775807+$ncpus", "x=9223372036854775807+C" },
	{ "filename=/tmp/$ncpus", "filename=/tmp/C" },
	{ "time_based", "time_based" },
	{ "", "" },
};

START_TEST(test_words)
{
	char *got = subst_expand(substitutions[_i].option), *expected, *place;

	expected = strdup(substitutions[_i].expected);
	place = strchr(expected, 'C');
	if (place) {
		char *text;

		ck_assert_int_ge(asprintf(&text, "%.*s%ld%s", (int)(place - expected), expected,
					  sysconf(_SC_NPROCESSORS_CONF), place + 1),
				 0);
		free(expected);
		expected = text;
	}
	assert_same(substitutions[_i].option, got, expected);
	free(got);
	free(expected);
}
END_TEST

/* --- reading ---------------------------------------------------------------------------------- */

/* What fio takes for key and value; '|' between, '-' for a key alone. */
static const struct {
	const char *line, *key, *value;
} lines[] = {
	{ "bs=4k", "bs", "4k" },
	{ "  bs = 4k  ", "bs", " 4k" },
	{ "\tbs=4k\r", "bs", "4k" },
	{ "bs=4k ; comment", "bs", "4k" },
	{ "bs=4k# comment", "bs", "4k" },
	{ "time_based", "time_based", NULL },
	{ "time_based ", "time_based", NULL },
	{ "filename=", "filename", "" },
	{ "filename=/a=b", "filename", "/a=b" },
	{ "filename=/tmp/\xc3\xa4\xe2\x82\xac", "filename", "/tmp/\xc3\xa4\xe2\x82\xac" },
	{ "${KP_BS}=${KP_BS}", "8k", "8k" },
	{ "bs=\x01", "bs", "" },
	{ "; bs=4k", NULL, NULL },
	{ "   # bs=4k", NULL, NULL },
	{ "", NULL, NULL },
	{ " \r", NULL, NULL },
};

START_TEST(test_lines)
{
	struct jobfile jf = { 0 };
	const struct jobfile_line *l;
	char text[256], *error, *whole;

	snprintf(text, sizeof(text), "[a]\n%s\n[b]", lines[_i].line);
	ck_assert_int_eq(jobfile_parse(&jf, "t", true, text, &error), 0);
	ck_assert_uint_eq(jf.nr_sections, 2);
	ck_assert_uint_eq(jf.sections[0].nr_lines, 2);
	l = &jf.sections[0].lines[1];
	assert_same(lines[_i].line, l->key, lines[_i].key);
	assert_same(lines[_i].line, l->value, lines[_i].value);
	ck_assert_uint_eq(l->line, 2);
	whole = jobfile_text(&jf);
	assert_same("whole", whole, text);
	free(whole);
	jobfile_free(&jf);
}
END_TEST

static const struct {
	const char *text, *error;
} bad_files[] = {
	{ "", "job.fio: defines no job" },
	{ "; nothing\n", "job.fio: defines no job" },
	{ "[global]\nbs=4k\n", "job.fio: defines no job" },
	{ "[global-too]\nbs=4k\n", "job.fio: defines no job" },
	{ "\nbs=4k\n[a]\n", "job.fio:2: option outside of a [section] 'bs=4k'" },
	{ "include sub/inner.inc\n[a]\n",
	  "job.fio:1: option outside of a [section] 'include sub/inner.inc'" },
	{ "[\n", "job.fio:1: a section needs a name '['" },
	{ "[a]\ninclude\n", "job.fio:2: include names no file" },
	{ "[a]\ninclude gone.inc\n",
	  "job.fio:2: cannot read the included file 'gone.inc': No such file or directory" },
	{ "[a]\ninclude sub\n", "sub: is a directory, not a job file" },
	{ "[a]\ninclude section.inc\n",
	  "section.inc:1: an included file cannot begin a section '[no]'" },
	{ "[a]\ninclude loop.inc\n",
	  "loop.inc:1: includes nest too deep, is there a loop? 'loop.inc'" },
};

START_TEST(test_bad_file)
{
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	ck_assert_int_lt(swap_text(bad_files[_i].text, "native", &opt, &result, &error), 0);
	assert_same(bad_files[_i].text, error, bad_files[_i].error);
	free(error);
}
END_TEST

START_TEST(test_bad_path)
{
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	ck_assert_int_eq(swap_path("gone.fio", "native", &opt, &result, &error), -ENOENT);
	assert_same("gone", error, "gone.fio: No such file or directory");
	free(error);
	ck_assert_int_eq(swap_path("-", "native", &opt, &result, &error), -EOPNOTSUPP);
	free(error);
	ck_assert_int_eq(mkfifo("fifo", 0600), 0);
	ck_assert_int_eq(swap_path("fifo", "native", &opt, &result, &error), -EOPNOTSUPP);
	free(error);
	ck_assert_int_eq(unlink("fifo"), 0);
}
END_TEST

START_TEST(test_long_line)
{
	struct swap_options opt = show_options();
	struct swap_result result;
	char text[8300], *error;

	for (size_t len = 8190; len <= 8191; len++) {
		strcpy(text, "[a]\nx=");
		memset(text + 6, 'y', len - 2);
		text[4 + len] = '\0';
		ck_assert_int_eq(swap_text(text, "native", &opt, &result, &error),
				 len == 8190 ? 0 : -EINVAL);
		assert_same("long", error,
			    len == 8190 ? NULL
					: "job.fio:2: fio cuts lines at 8191 characters, this one "
					  "is longer");
		free(error);
		swap_result_free(&result);
	}
}
END_TEST

/* --- exchange --------------------------------------------------------------------------------- */

static const struct {
	const char *label, *before, *after;
	const char *warning; /* the only one, or NULL */
} exchanges[] = {
	{ "named in the job", "[a]\nioengine=libaio\nbs=4k\n", "[a]\n" SPLIT "libaio\nbs=4k\n",
	  NULL },
	{ "absent", "; c\n[a]\nbs=4k\n", "; c\n[a]\n" SPLIT "psync\nbs=4k\n", NULL },
	{ "absent, with a global", "[global]\nbs=4k\n[a]\n[b]\n",
	  "[global]\n" SPLIT "psync\nbs=4k\n[a]\n[b]\n", NULL },
	{ "absent before the global", "[a]\n[global]\nbs=4k\n[b]\n",
	  "[a]\n" SPLIT "psync\n[global]\n" SPLIT "psync\nbs=4k\n[b]\n", NULL },
	{ "inherited", "[global]\nioengine=io_uring\n[a]\n[b]\nioengine=sync\n",
	  "[global]\n" SPLIT "io_uring\n[a]\n[b]\n" SPLIT "psync\n", NULL },
	{ "several globals", "[global]\nioengine=libaio\n[a]\n[global]\nioengine=vsync\n[b]\n",
	  "[global]\n" SPLIT "libaio\n[a]\n[global]\n" SPLIT "psync\n[b]\n", NULL },
	{ "named twice", "[a]\nioengine=null\nbs=4k\nioengine=libaio\n",
	  "[a]\nbs=4k\n" SPLIT "libaio\n", NULL },
	{ "option before the engine", "[a]\nhipri\nioengine=io_uring\nhipri=1 ; twice\n",
	  "[a]\n" SPLIT "io_uring\n", NULL /* checked in test_drop */ },
	{ "option inherited from a global's engine",
	  "[global]\nioengine=io_uring\n[a]\nfixedbufs=1\n", "[global]\n" SPLIT "io_uring\n[a]\n",
	  "job.fio:4: 'fixedbufs' is an option of io_uring that split has not, dropped" },
	{ "the same word in another engine stays", "[a]\nioengine=libaio\nhipri\n",
	  "[a]\n" SPLIT "libaio\nhipri\n", NULL },
	{ "another engine", "[a]\nioengine=libaio\n[b]\nioengine=cpuio\ncpuload=10\n",
	  "[a]\n" SPLIT "libaio\n[b]\nioengine=cpuio\ncpuload=10\n",
	  "job.fio:4: cpuio is no storage engine, left alone: [b]" },
	{ "environment", "[a]\nioengine=${KP_ENGINE}\nbs=${KP_BS}\n",
	  "[a]\n" SPLIT "io_uring\nbs=${KP_BS}\n", NULL },
	{ "words stay", "[a]\nioengine=sync\nnumjobs=$ncpus*2\nfilename_format=$jobname.x\n",
	  "[a]\n" SPLIT "psync\nnumjobs=$ncpus*2\nfilename_format=$jobname.x\n", NULL },
	{ "posixaio", "[a]\nioengine=posixaio\n", "[a]\n" SPLIT "libaio\n",
	  "job.fio:2: posixaio, which is threads, is exchanged with backend=libaio" },
	{ "vsync", "[a]\nioengine=vsync\n", "[a]\n" SPLIT "psync\n",
	  "job.fio:2: vsync, which joins requests that follow each other into one preadv, is "
	  "exchanged with backend=psync" },
	{ "our own engine",
	  "[a]\nioengine=external:engines/split.so\npolicy=clone\nmax_segments=4\n",
	  "[a]\nioengine=external:" SO "\npolicy=4.9\nmax_segments=4\n", NULL },
	{ "our own engine and its backend",
	  "[global]\nioengine=external:/x/split.so\nbackend=null\n[a]\nkernel=5.2\n[global]\n"
	  "backend=libaio\n[b]\npolicy=fast\n",
	  "[global]\nioengine=external:" SO "\npolicy=4.9\nbackend=null\n[a]\n[global]\n"
	  "backend=libaio\n[b]\n",
	  NULL },
	{ "another engine of ours",
	  "[a]\nioengine=external:/x/diolock.so\npolicy=xfs-4.9\nlock_option=1\nnull_mbps=5\n",
	  "[a]\nioengine=external:" SO "\npolicy=4.9\nnull_mbps=5\n",
	  "job.fio:4: 'lock_option' is an option of external:/x/diolock.so that split has not, "
	  "dropped" },
	{ "an engine of ours by name", "[a]\nioengine=split\npolicy=fast\n",
	  "[a]\nioengine=external:" SO "\npolicy=4.9\n", NULL },
	{ "an engine of others", "[a]\nioengine=external:/x/mysplit.so\n[b]\n",
	  "[a]\nioengine=external:/x/mysplit.so\n[b]\n" SPLIT "psync\n",
	  "job.fio:2: external:/x/mysplit.so is no storage engine, left alone: [a]" },
	{ "carriage returns", "[a]\r\nioengine = libaio\r\nbs=4k\r\n",
	  "[a]\r\nioengine = libaio\r\nbs=4k\r\n", NULL /* ' libaio' is not an engine to fio */ },
	{ "carriage returns", "[a]\r\nioengine=libaio\r\nbs=4k\r\n",
	  "[a]\r\n" SPLIT "libaio\nbs=4k\r\n", NULL },
	{ "no newline", "[a]\nioengine=libaio\nbs=4k", "[a]\n" SPLIT "libaio\nbs=4k", NULL },
	{ "no newline at the engine", "[a]\nioengine=libaio", "[a]\n" SPLIT "libaio\n", NULL },
	{ "nested includes", "[a]\ninclude sub/outer.inc\nbs=4k\n",
	  "[a]\n" SPLIT "libaio\n; inner\niodepth=4\nbs=4k\n", NULL },
	{ "utf-8", "[\xc3\xa4]\nioengine=libaio # \xe2\x82\xac\n", "[\xc3\xa4]\n" SPLIT "libaio\n",
	  NULL },
};

START_TEST(test_exchange)
{
	const char *label = exchanges[_i].label;
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	opt.allow_exec = true; /* engines from elsewhere */
	int ret = swap_text(exchanges[_i].before, "split:4.9", &opt, &result, &error);

	if (!strcmp(exchanges[_i].before, exchanges[_i].after)) {
		ck_assert_msg(ret == -EOPNOTSUPP, "%s: %d", label, ret);
		free(error);
		return;
	}
	ck_assert_msg(!ret, "%s: %s", label, error);
	assert_same(label, result.text, exchanges[_i].after);
	if (exchanges[_i].warning) {
		ck_assert_uint_eq(result.nr_warnings, 1);
		assert_same(label, result.warnings[0], exchanges[_i].warning);
	}
	swap_result_free(&result);

	/* native changes nothing but what it has to: the includes */
	ck_assert_int_eq(swap_text(exchanges[_i].before, "native", &opt, &result, &error), 0);
	if (!strstr(exchanges[_i].before, "include"))
		assert_same(label, result.text, exchanges[_i].before);
	ck_assert_uint_eq(result.nr_warnings, 0);
	swap_result_free(&result);
}
END_TEST

/* Without a fio to ask, the table of engines has to do. */
START_TEST(test_no_fio)
{
	struct setting bs = setting("bs", "4k");
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	opt.fio = "/nowhere/fio";
	ck_assert_int_eq(swap_text("[a]\nioengine=io_uring\nsqthread_poll=1\n", "split:4.9", &opt,
				   &result, &error),
			 0);
	assert_same("text", result.text, "[a]\n" SPLIT "io_uring\n");
	swap_result_free(&result);
	opt.set = &bs;
	opt.nr_set = 1;
	ck_assert_int_eq(swap_text("[a]\n", "split:4.9", &opt, &result, &error), -ENOENT);
	assert_same("set", error,
		    "cannot ask '/nowhere/fio' about option 'bs': No such file or directory");
	free(error);
}
END_TEST

START_TEST(test_drop)
{
	static const char job[] = "[a]\nhipri\nioengine=io_uring\nhipri=1 ; twice\n";
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	ck_assert_int_eq(swap_text(job, "split:4.9", &opt, &result, &error), 0);
	ck_assert_uint_eq(result.nr_warnings, 2);
	assert_same("first", result.warnings[0],
		    "job.fio:2: 'hipri' is an option of io_uring that split has not, dropped");
	assert_same("second", result.warnings[1],
		    "job.fio:4: 'hipri' is an option of io_uring that split has not, dropped");
	swap_result_free(&result);
	opt.strict = true;
	ck_assert_int_eq(swap_text(job, "split:4.9", &opt, &result, &error), -EPERM);
	assert_same("strict", error,
		    "job.fio:2: 'hipri' is an option of io_uring that split has not; without "
		    "--strict it is dropped");
	free(error);
	/* native drops nothing */
	ck_assert_int_eq(swap_text(job, "native", &opt, &result, &error), 0);
	swap_result_free(&result);
}
END_TEST

START_TEST(test_needs_engine)
{
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	opt.show_only = false;
	ck_assert_int_eq(swap_text("[a]\n", "split:4.9", &opt, &result, &error), -ENOENT);
	assert_same("missing", error,
		    "engine '" SO "': No such file or directory; build it, or say where the "
		    "engines are");
	free(error);
}
END_TEST

START_TEST(test_show)
{
	struct swap_input in = { .path = "job.fio" };
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error, *shown;
	size_t size;
	FILE *out;

	ck_assert_int_eq(swap_text("[global]\nioengine=sync\n[a]\nb=1\nc=1\nd=1\ne=1\n",
				   "split:4.9", &opt, &result, &error),
			 0);
	out = open_memstream(&shown, &size);
	ck_assert_int_eq(swap_show(out, &in, &result), 0);
	fclose(out);
	assert_same("show", shown,
		    "--- job.fio\n+++ job.fio\n@@ -1,5 +1,7 @@\n [global]\n-ioengine=sync\n"
		    "+ioengine=external:" SO "\n+policy=4.9\n+backend=psync\n [a]\n b=1\n c=1\n");
	free(shown);
	swap_result_free(&result);

	ck_assert_int_eq(swap_text("[a]\nbs=4k", "native", &opt, &result, &error), 0);
	out = open_memstream(&shown, &size);
	ck_assert_int_eq(swap_show(out, &in, &result), 0);
	fclose(out);
	assert_same("equal", shown, "");
	free(shown);
	swap_result_free(&result);
}
END_TEST

/* --- overrides -------------------------------------------------------------------------------- */

static const struct {
	const char *label, *key, *value, *before, *after, *error;
} overrides[] = {
	{ "in every job", "bs", "8k", "[global]\nbs=4k\n[a]\nbs=1k\nrw=read\n\n[b]\n",
	  "[global]\n[a]\nrw=read\nbs=8k\n\n[b]\nbs=8k\n", NULL },
	{ "alias", "bs", "8k", "[a]\nblocksize=4k\n", "[a]\nbs=8k\n", NULL },
	{ "family", "bs", "8k", "[a]\nbssplit=4k/50\nblocksize_range=1k-2k\n", "[a]\nbs=8k\n",
	  NULL },
	{ "size", "size", "8m", "[a]\nfilesize=128g\nsize=999g\nfill_fs=1\n", "[a]\nsize=8m\n",
	  NULL },
	{ "target", "filename", "/t", "[global]\ndirectory=/d\n[a]\nfilename=x\nfilename=y\n",
	  "[global]\n[a]\nfilename=/t\n", NULL },
	{ "directory keeps names", "directory", "/t", "[a]\nfilename=x\ndirectory=/d\n",
	  "[a]\nfilename=x\ndirectory=/t\n", NULL },
	{ "directory drops paths", "directory", "/t", "[a]\nfilename=/dev/sdx\n",
	  "[a]\ndirectory=/t\n", NULL },
	{ "directory drops paths of a list", "directory", "/t",
	  "[a]\nfilename=/dev/sdx:a:/dev/sdy:b\\:c\n", "[a]\nfilename=a:b\\:c\ndirectory=/t\n",
	  NULL },
	{ "directory drops a later path", "directory", "/t", "[a]\nfilename=a:/dev/sdb\n",
	  "[a]\nfilename=a\ndirectory=/t\n", NULL },
	{ "directory in a global with names", "directory", "/t",
	  "[global]\nfilename=db.dat\n[a]\n[global]\ndirectory=/d\n[b]\nfilename=x\n",
	  "[global]\nfilename=db.dat\ndirectory=/t\n[a]\ndirectory=/t\n[global]\n[b]\nfilename=x\n"
	  "directory=/t\n",
	  NULL },
	{ "directory in a global with a path", "directory", "/t",
	  "[global]\nfilename=/dev/sdb\n[a]\n", "[global]\n[a]\ndirectory=/t\n", NULL },
	{ "direct", "direct", "1", "[a]\nbuffered=1\n", "[a]\ndirect=1\n", NULL },
	{ "an engine's option", "hipri", "1", "[a]\nioengine=io_uring\n[b]\nioengine=sync\n",
	  "[a]\nioengine=io_uring\nhipri=1\n[b]\nioengine=sync\n", NULL },
	{ "of another variant", "null_mbps", "9", "[a]\n", "[a]\n", NULL },
	{ "engine", "ioengine", "null", "[a]\n", NULL,
	  "'ioengine=null' cannot be set: the variant names the engine" },
	{ "name", "name", "x", "[a]\n", NULL,
	  "'name=x' cannot be set: results are matched by the jobs' own names" },
	{ "comment sign", "filename", "/a;b", "[a]\n", NULL,
	  "'filename=/a;b' cannot be written in a job file, which knows no quoting of ; # ${ "
	  "$ncpus or blanks at the end" },
};

START_TEST(test_override)
{
	struct setting set = setting(overrides[_i].key, overrides[_i].value);
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;
	int ret;

	opt.set = &set;
	opt.nr_set = 1;
	ret = swap_text(overrides[_i].before, "native", &opt, &result, &error);
	ck_assert_msg(ret == (overrides[_i].error ? -EINVAL : 0), "%s: %d %s", overrides[_i].label,
		      ret, error);
	assert_same(overrides[_i].label, error, overrides[_i].error);
	assert_same(overrides[_i].label, result.text, overrides[_i].after);
	free(error);
	swap_result_free(&result);
}
END_TEST

/* Whatever the job says, its files are where --target wants them, or it is refused. */
START_TEST(test_target)
{
	static const struct {
		const char *job, *error;
	} jobs[] = {
		{ "[global]\nfilename=db.dat\n[a]\n", NULL },
		{ "[global]\nfilename=a:/dev/sdb\n[a]\nfilename=c\n", NULL },
		{ "[a]\nfilename=sub/x..y\nnrfiles=3\n[b]\nnumjobs=3\nnrfiles=2\n", NULL },
		{ "[a]\nfilename=../x\n",
		  "job.fio:2: the job would open /t/../x, which is not within --target /t; "
		  "change its filename" },
		{ "[a]\nbs=4k\n[b]\nread_iolog=tlog\nreplay_redirect=/dev/sdx\n",
		  "job.fio:4: the job would open /dev/sdx, which is not within --target /t; "
		  "change its filename" },
	};
	struct setting set = setting("directory", "/t");
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	opt.set = &set;
	opt.nr_set = 1;
	opt.target = "/t";
	write_file("tlog", "fio version 2 iolog\nx add\n");
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		int ret = swap_text(jobs[i].job, "native", &opt, &result, &error);

		ck_assert_msg(!ret == !jobs[i].error, "%s: %d", jobs[i].job, ret);
		assert_same(jobs[i].job, error, jobs[i].error);
		for (size_t k = 0; !ret && k < result.nr_files; k++)
			ck_assert_msg(!strncmp(result.files[k], "/t/", 3), "%s", result.files[k]);
		free(error);
		swap_result_free(&result);
	}
}
END_TEST

START_TEST(test_variant_settings)
{
	struct setting set[] = { setting("null_submit_nsec", "5"), setting("bs", "4k"),
				 setting("backend", "psync") };
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	opt.set = set;
	opt.nr_set = ARRAY_SIZE(set);

	opt.cpus = "0-1";
	ck_assert_int_eq(swap_text("[a]\ncpumask=1\n[b]\nioengine=null\n",
				   "split:kernel=4.9,backend=null,iodepth=4", &opt, &result,
				   &error),
			 0);
	/* iodepth is fio's own option, so it goes to both jobs; the variant's backend stays */
	assert_same("settings", result.text,
		    "[a]\nioengine=external:" SO "\nkernel=4.9\nbackend=null\nnull_submit_nsec=5\n"
		    "bs=4k\niodepth=4\ncpus_allowed=0-1\n"
		    "[b]\nioengine=null\nbs=4k\niodepth=4\ncpus_allowed=0-1\n");
	swap_result_free(&result);
}
END_TEST

START_TEST(test_logs)
{
	struct swap_options opt = show_options();
	struct swap_result result;
	char *error;

	opt.run_dir = "/run/1";
	ck_assert_int_eq(swap_text("[global]\nwrite_bw_log\nwrite_lat_log=logs/l\n[a]\n"
				   "write_iolog=io\n[b]\nread_iolog=io\n[c]\nread_iolog=other\n",
				   "native", &opt, &result, &error),
			 0);
	assert_same("logs", result.text,
		    "[global]\nwrite_bw_log\nwrite_lat_log=logs/l\n"
		    "[a]\nwrite_bw_log=/run/1/a\nwrite_lat_log=/run/1/logs_l\n"
		    "write_iolog=/run/1/io\n"
		    "[b]\nread_iolog=/run/1/io\nwrite_bw_log=/run/1/b\n"
		    "write_lat_log=/run/1/logs_l\n"
		    "[c]\nread_iolog=other\nwrite_bw_log=/run/1/c\nwrite_lat_log=/run/1/logs_l\n");
	ck_assert_uint_eq(result.nr_args, 1);
	assert_same("state", result.args[0], "--aux-path=/run/1");
	swap_result_free(&result);
	ck_assert_int_eq(swap_text("[a]\nverify_state_load=1\n", "native", &opt, &result, &error),
			 0);
	ck_assert_uint_eq(result.nr_args, 0);
	ck_assert_uint_eq(result.nr_warnings, 1);
	swap_result_free(&result);
}
END_TEST

/* --- refusals --------------------------------------------------------------------------------- */

static const struct {
	const char *options;
	int shown, run; /* errors of --show and of a run */
	const char *reason;
} refusals[] = {
	{ "zonemode=zbd", -EOPNOTSUPP, -EOPNOTSUPP,
	  "job.fio:3: zonemode=zbd: the engines neither report nor reset zones; fio's own must run "
	  "it" },
	{ "zonemode=strided", 0, 0, NULL },
	{ "atomic=1", -EOPNOTSUPP, -EOPNOTSUPP,
	  "job.fio:3: atomic=1: the engines submit no atomic writes" },
	{ "atomic=0", 0, 0, NULL },
	{ "dataplacement=none", 0, 0, NULL },
	{ "data_placement=fdp", -EOPNOTSUPP, -EOPNOTSUPP,
	  "job.fio:3: data_placement=fdp: data placement directives end at fio's own engines" },
	{ "num_range=4", -EOPNOTSUPP, -EOPNOTSUPP,
	  "job.fio:3: num_range=4: the engines trim one range at a time" },
	{ "profile=act", -EOPNOTSUPP, -EOPNOTSUPP,
	  "job.fio:3: profile=act makes jobs of its own, with its own engine" },
	{ "exec_prerun=rm -rf x", 0, -EPERM,
	  "job.fio:3: exec_prerun=rm -rf x runs a command; if it may, say --allow-exec" },
	{ "read_iolog=/nowhere", 0, -EPERM,
	  "job.fio:3: the job may write to a block device that cannot be told from here; use "
	  "replay_redirect, or say --destructive" },
};

START_TEST(test_refusal)
{
	struct swap_options opt = show_options();
	struct swap_result result;
	char text[256], *error;
	int ret;

	snprintf(text, sizeof(text), "[a]\nioengine=libaio\n%s\n", refusals[_i].options);
	for (int run = 0; run < 2; run++) {
		int expected = run ? refusals[_i].run : refusals[_i].shown;

		opt.show_only = !run;
		if (run) {
			opt.engine_dir = dir;
			write_file("split.so", "");
		}
		ret = swap_text(text, "split:4.9", &opt, &result, &error);
		ck_assert_msg(ret == expected, "%s: %d %s", text, ret, error);
		assert_same(text, error, expected ? refusals[_i].reason : NULL);
		ck_assert_uint_eq(result.nr_warnings, !expected && refusals[_i].reason);
		free(error);
		swap_result_free(&result);
	}
	opt.allow_exec = opt.destructive = true;
	ret = swap_text(text, "split:4.9", &opt, &result, &error);
	ck_assert_int_eq(ret, refusals[_i].shown);
	free(error);
	swap_result_free(&result);
}
END_TEST

/* --- jobs ------------------------------------------------------------------------------------- */

START_TEST(test_describe)
{
	static const unsigned int groups[] = { 0, 1, 1, 2 };
	struct swap_options opt = show_options();
	struct swap_result r;
	char *error;

	ck_assert_int_eq(
		swap_text("[global]\nsize=1m\ndirectory=d1:d2\n"
			  "[a]\nnumjobs=2*$ncpus/$ncpus\ntime_based\nruntime=2m\nramp_time=500ms\n"
			  "direct=1\nrate=4k\n"
			  "[b]\nnew_group\nreadwrite=randwrite:4\nbuffered=0\nbuffered="
			  "1\nstonewall=0\n"
			  "[c]\nioengine=cpuio\nthinktime=0\n"
			  "[global]\nstonewall\ndirect=1\nfilename=x:y\\:z\n"
			  "[d]\nname=e\nnrfiles=2\nruntime=10\nfilename=w\n",
			  "split:4.9", &opt, &r, &error),
		0);
	ck_assert_uint_eq(r.nr_jobs, 4);
	assert_same("name", r.jobs[0].name, "a");
	ck_assert_uint_eq(r.jobs[0].numjobs, 2);
	ck_assert_uint_eq(r.jobs[0].us, 120500000);
	ck_assert(r.jobs[0].swapped && !r.jobs[0].fixed_work && !r.jobs[0].buffered);
	assert_same("ratio", r.jobs[0].ratio_one, "rate=4k");
	ck_assert(!r.jobs[0].writes && r.jobs[1].writes);
	ck_assert(r.jobs[1].fixed_work && r.jobs[1].buffered);
	ck_assert(!r.jobs[2].swapped && !r.jobs[2].storage && !r.jobs[2].ratio_one);
	assert_same("engine", r.jobs[2].old_engine, "cpuio");
	assert_same("own name", r.jobs[3].name, "e");
	ck_assert(!r.jobs[3].buffered && r.jobs[3].fixed_work);
	for (unsigned int i = 0; i < 4; i++)
		ck_assert_uint_eq(r.jobs[i].group, groups[i]);
	ck_assert_uint_eq(r.jobs[3].line, 24);

	static const char *const files[] = { "d1/a.0.0", "d1/b.0.0", "d1/c.0.0", "d1/w",
					     "d1/x",	 "d1/y:z",   "d2/a.1.0" };
	ck_assert_uint_eq(r.nr_files, ARRAY_SIZE(files));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		assert_same("file", r.files[i], files[i]);
	swap_result_free(&r);
}
END_TEST

/* What runs one after the other, and what fio's group_reporting must not hide. */
START_TEST(test_phases)
{
	static const struct {
		const char *options;
		bool phases;
	} jobs[] = {
		{ "rw=write\nverify=crc32c", true },
		{ "rw=randwrite:4\nverify=md5", true },
		{ "rw=trimwrite\nverify=crc32c", true },
		{ "rw=rw\nverify=crc32c", false },
		{ "readwrite=randrw\nverify=md5", false },
		{ "rw=readwrite\nverify=md5", false },
		{ "rw=read\nverify=crc32c", false },
		{ "rw=write\nverify=0", false },
		{ "rw=write\nverify=md5\ndo_verify=0", false },
		{ "rw=write", false },
	};
	struct swap_options opt = show_options();
	struct swap_result r;
	char text[256], *error;

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		snprintf(text, sizeof(text), "[a]\n%s\n[b]\nwait_for=a\n", jobs[i].options);
		ck_assert_int_eq(swap_text(text, "native", &opt, &r, &error), 0);
		ck_assert_msg(r.jobs[0].phases == jobs[i].phases, "%s", jobs[i].options);
		assert_same("after", r.jobs[0].after, NULL);
		assert_same("after", r.jobs[1].after, "a");
		swap_result_free(&r);
	}
}
END_TEST

START_TEST(test_group_reporting)
{
	static const char mixed[] = "[global]\ngroup_reporting\n[a]\n[b]\nioengine=cpuio\n"
				    "[c]\nstonewall\n[d]\ngroup_reporting=0\n";
	static const char apart[] = "[global]\ngroup_reporting\n[a]\ngroup_reporting=0\n"
				    "[b]\nioengine=cpuio\ngroup_reporting=0\n"
				    "[c]\nstonewall\n[d]\ngroup_reporting=0\n";
	struct swap_options opt = show_options();
	struct swap_result r;
	char *error;

	ck_assert_int_eq(swap_text(mixed, "native", &opt, &r, &error), 0);
	assert_same("shown", r.text, mixed);
	swap_result_free(&r);
	opt.show_only = false;
	ck_assert_int_eq(swap_text(mixed, "native", &opt, &r, &error), 0);
	assert_same("run", r.text, apart);
	swap_result_free(&r);
}
END_TEST

START_TEST(test_targets)
{
	static const char log[] = "fio version 3 iolog\n1 /dev/sdx add\n2 /dev/sdx open\n"
				  "3 /dev/sdx read 0 4096\n";
	struct jobfile jf = { 0 };
	struct targets t = { 0 };
	char *error;

	write_file("log", log);
	ck_assert_int_eq(
		jobfile_parse(&jf, "t", true,
			      "[/dev/null]\nrw=read\n[b]\nread_iolog=log\nrw=write\n"
			      "[c]\nread_iolog=gone\nreplay_redirect=/r\n"
			      "[d]\nnumjobs=1000000\nnrfiles=1000000\nfilename_format=$FILENUM\n",
			      &error),
		0);
	targets_of(&jf, 0, &t);
	ck_assert_uint_eq(t.paths.nr, 1);
	assert_same("device", t.paths.item[0], "/dev/null");
	ck_assert(!t.writes);
	text_list_free(&t.paths);

	targets_of(&jf, 1, &t);
	ck_assert_uint_eq(t.paths.nr, 1);
	assert_same("log", t.paths.item[0], "/dev/sdx");
	ck_assert(!t.writes && !t.unknown); /* the log decides, and it only reads */
	text_list_free(&t.paths);

	targets_of(&jf, 2, &t);
	ck_assert_uint_eq(t.paths.nr, 1);
	assert_same("redirect", t.paths.item[0], "/r");
	ck_assert(t.writes && !t.unknown);
	text_list_free(&t.paths);

	targets_of(&jf, 3, &t);
	ck_assert(t.unknown);
	text_list_free(&t.paths);
	jobfile_free(&jf);
}
END_TEST

/* --- command lines ---------------------------------------------------------------------------- */

static const struct {
	const char *words, *job, *args, *notes, *error;
} commands[] = {
	{ "fio --name=x --rw=randread", "[x]\nrw=randread\n", "", "", NULL },
	{ "/usr/bin/fio -name x -rw randread", "[x]\nrw=randread\n", "", "", NULL },
	{ "fio --bs=4k --name=x --time_based --name y --size 1m",
	  "[global]\nbs=4k\n[x]\ntime_based\n[y]\nsize=1m\n", "", "", NULL },
	{ "fio --name=x --ioengine=io_uring --hipri --bs=4k",
	  "[x]\nioengine=io_uring\nhipri\nbs=4k\n", "", "", NULL },
	{ "fio --name=global --bs=4k --name=x", "[global]\nbs=4k\n[x]\n", "", "", NULL },
	{ "fio --ioengine io_uring --name=x --hipri=1",
	  "[global]\nioengine=io_uring\n[x]\nhipri=1\n", "", "", NULL },
	{ "fio --name=x --output=o -o p --minimal --readonly", "[x]\n", " --readonly",
	  " --output --output --minimal", NULL },
	{ "fio cmd.fio --bs=4k --section=b", "[global]\nbs=4k\n; file\n[b]\nrw=read", "", "",
	  NULL },
	{ "fio --name=x -- cmd.fio", "[x]\n; file\n[a]\n[b]\nrw=read", "", "", NULL },
	{ "fio --name=x --time_based 1", NULL, NULL, NULL, "1: No such file or directory" },
	{ "fio --name=x --nosuch=1", NULL, NULL, NULL,
	  "command line: neither fio nor its engine psync has an option '--nosuch=1'; write names "
	  "in full, the engine's behind --ioengine" },
	{ "fio --name=x --hipri --ioengine=io_uring", NULL, NULL, NULL,
	  "command line: neither fio nor its engine psync has an option '--hipri'; write names in "
	  "full, the engine's behind --ioengine" },
	{ "fio --name=x --ioengine=io_uring --name=y --hipri", NULL, NULL, NULL,
	  "command line: neither fio nor its engine psync has an option '--hipri'; write names in "
	  "full, the engine's behind --ioengine" },
	{ "fio --name=x --bs", NULL, NULL, NULL, "command line: option '--bs' needs a value" },
	{ "fio --name=x --filename=a;b", NULL, NULL, NULL,
	  "command line: 'filename=a;b' cannot be written in a job file, which knows no quoting of "
	  "; # ${ $ncpus or blanks at the end" },
	{ "fio --client=h cmd.fio", NULL, NULL, NULL,
	  "command line: --client is refused: the jobs would run in another process or on another "
	  "machine than the engine" },
	{ "fio --name=x -v", NULL, NULL, NULL,
	  "command line: --version is refused: it makes fio print or test something and run no "
	  "job" },
	{ "fio a.fio b.fio", NULL, NULL, NULL,
	  "command line: two job files, 'a.fio' and 'b.fio'; compare one at a time" },
	{ "fio --name=x --section=y", NULL, NULL, NULL, "command line: there is no section 'y'" },
	{ "sudo fio --name=x", NULL, NULL, NULL,
	  "command line: begins with 'sudo', not with fio; run kpolicy itself under sudo, taskset "
	  "or numactl" },
};

/* The parts joined, for comparison; @marker only what follows it up to a blank. */
static char *join(const struct text_list *list, const char *marker)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; i < list->nr; i++) {
		const char *part = marker ? strstr(list->item[i], marker) : list->item[i];

		fprintf(out, " %.*s", (int)strcspn(part, " "), part);
	}
	fclose(out);
	return text;
}

START_TEST(test_command)
{
	char *words = strdup(commands[_i].words), *rest = words, *error, *got;
	struct text_list args = { 0 }, notes = { 0 };
	struct jobfile jf = { 0 };
	char *argv[32] = { NULL };
	int ret;

	for (size_t n = 0; (argv[n] = strsep(&rest, " ")); n++)
		;
	write_file("cmd.fio", "; file\n[a]\n[b]\nrw=read");
	ret = cmdline_read(argv, fio_path, &jf, &args, &notes, &error);
	assert_same(commands[_i].words, error, commands[_i].error);
	ck_assert_msg(!ret == !commands[_i].error, "%s: %d", commands[_i].words, ret);
	if (!ret) {
		got = jobfile_text(&jf);
		assert_same(commands[_i].words, got, commands[_i].job);
		free(got);
		got = join(&args, NULL);
		assert_same(commands[_i].words, got, commands[_i].args);
		free(got);
		got = join(&notes, "--");
		assert_same(commands[_i].words, got, commands[_i].notes);
		free(got);
	}
	free(error);
	free(words);
	text_list_free(&args);
	text_list_free(&notes);
	jobfile_free(&jf);
}
END_TEST

/* A fio that says of every option that it may stand alone. */
START_TEST(test_command_without_value)
{
	static const char *const options[] = { "--name", "--ioengine" };
	struct text_list args = { 0 }, notes = { 0 };

	write_file("odd-fio", "#!/bin/sh\necho 'type: empty or boolean value'\n");
	ck_assert_int_eq(chmod("odd-fio", 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		char *argv[] = { (char *)"fio", (char *)options[i], NULL };
		struct jobfile jf = { 0 };
		char *error;

		ck_assert_int_eq(cmdline_read(argv, "./odd-fio", &jf, &args, &notes, &error),
				 -EINVAL);
		ck_assert_msg(strstr(error, "needs a value") != NULL, "%s: %s", options[i], error);
		free(error);
		jobfile_free(&jf);
	}
}
END_TEST

/* --- devices ---------------------------------------------------------------------------------- */

/* A disk 7:16 with partitions 7:17 and 7:18, its state as the row says. */
static const struct {
	const char *label, *mountinfo, *file; /* a file that exists besides */
	unsigned int minor;
	const char *why;
} devices[] = {
	{ "free disk", "", NULL, 16, NULL },
	{ "free partition", "", NULL, 17, NULL },
	{ "mounted", "30 1 7:16 / /mnt rw - ext4 /dev/x rw\n", NULL, 16, "mounted on /mnt" },
	{ "partition mounted", "30 1 7:18 / /mnt rw - ext4 /dev/x rw\n", NULL, 16,
	  "its partition d2 is mounted on /mnt" },
	{ "disk mounted", "30 1 7:16 / /mnt rw - ext4 /dev/x rw\n", NULL, 17,
	  "its disk d is mounted on /mnt" },
	{ "sibling mounted", "30 1 7:18 / /mnt rw - ext4 /dev/x rw\n", NULL, 17, NULL },
	{ "other device mounted", "30 1 8:16 / /mnt rw - ext4 /dev/x rw\n", NULL, 16, NULL },
	{ "held", "", "sys/d/holders/dm-0", 16, "held by dm-0" },
	{ "partition held", "", "sys/d/d1/holders/md0", 16, "its partition d1 is held by md0" },
	{ "btrfs", "", "btrfs/uuid/devices/d/dev", 16, "part of a mounted btrfs" },
};

static void run(const char *command)
{
	ck_assert_int_eq(system(command), 0);
}

START_TEST(test_device)
{
	static const struct safety_roots roots = {
		.mountinfo = "mountinfo", .swaps = "swaps", .dev_block = "block", .btrfs = "btrfs"
	};
	char *why;
	int ret;

	run("rm -rf sys block btrfs");
	run("mkdir -p block sys/d/holders sys/d/d1/holders sys/d/d2/holders btrfs/uuid/devices/d");
	run("ln -s ../sys/d block/7:16; ln -s ../sys/d/d1 block/7:17; ln -s ../sys/d/d2 "
	    "block/7:18");
	run("echo 1 >sys/d/d1/partition; echo 2 >sys/d/d2/partition");
	run("echo 7:16 >sys/d/dev; echo 7:17 >sys/d/d1/dev; echo 7:18 >sys/d/d2/dev");
	write_file("mountinfo", devices[_i].mountinfo);
	write_file("swaps", "Filename Type\n/nowhere partition\n");
	if (devices[_i].file)
		write_file(devices[_i].file, "7:16\n");
	ret = safety_in_use(makedev(7, devices[_i].minor), &roots, &why);
	ck_assert_msg(ret == !!devices[_i].why, "%s: %d", devices[_i].label, ret);
	assert_same(devices[_i].label, why, devices[_i].why);
	free(why);
}
END_TEST

START_TEST(test_no_device)
{
	char *why;

	ck_assert_int_eq(safety_check_write("gone", false, &safety_system, &why), 0);
	ck_assert_int_eq(safety_check_write("fio", false, &safety_system, &why), 0);
	ck_assert_int_eq(safety_check_write("/dev/null", false, &safety_system, &why), 0);
	ck_assert_int_eq(safety_check_write("/dev/ptmx", false, &safety_system, &why), -EPERM);
	free(why);
	ck_assert_int_eq(safety_check_write("/dev/ptmx", true, &safety_system, &why), 0);
}
END_TEST

/* --- anything at all -------------------------------------------------------------------------- */

static const char *const seeds[] = {
	"[global]\nioengine=libaio\nuserspace_reap\n\n[a]\nrw=randwrite\nfilename=x:y\\:z\n",
	"; c\n[a]\ninclude sub/outer.inc\nsize=${KP_BS}\n[b]\nioengine=null\n[global]\nstonewall",
	"[a]\r\nnumjobs=$ncpus*(2+1)\r\nwrite_bw_log\r\nread_iolog=log:log\r\ndirectory=a:b\r\n",
	"[a]\nbssplit=4k/50:8k/50,16k/100\nruntime=1-2m\ndirect=1 # x\nbuffered=1\nrate=4k",
};

static void mutate(char *text, size_t size, unsigned int *random)
{
	static const char bits[] = "[]=;#\n\r\t ${}:\\/*+-()0aincludeglobal\x80\x01";
	size_t len = strlen(text), at, count;

	for (count = 1 + rand_r(random) % 8; count; count--) {
		at = rand_r(random) % (len + 1);
		switch (rand_r(random) % 3) {
		case 0: /* overwrite */
			if (at < len)
				text[at] = bits[rand_r(random) % (sizeof(bits) - 1)];
			break;
		case 1: /* insert */
			if (len + 2 > size)
				break;
			memmove(text + at + 1, text + at, len - at + 1);
			text[at] = bits[rand_r(random) % (sizeof(bits) - 1)];
			len++;
			break;
		default: /* cut */
			memmove(text + at, text + at + (at < len), len - at + (at == len));
			len = strlen(text);
		}
	}
}

static unsigned long nr_random(void)
{
	const char *wanted = getenv("SWAP_FUZZ");

	return wanted ? strtoul(wanted, NULL, 10) : 500;
}

/* A seed to begin with: one of ours, or a file of the user's. */
static void choose_seed(char *text, size_t size, const glob_t *files, int own, unsigned int *random)
{
	FILE *in;

	strcpy(text, seeds[own]);
	if (!files->gl_pathc)
		return;
	in = fopen(files->gl_pathv[rand_r(random) % files->gl_pathc], "r");
	ck_assert_ptr_nonnull(in);
	text[fread(text, 1, size - 1, in)] = '\0';
	fclose(in);
}

START_TEST(test_fuzz)
{
	const char *directory = getenv("SWAP_SEEDS");
	glob_t files = { 0 };
	unsigned long nr = nr_random();
	unsigned int random = _i + 1;
	unsigned long parsed = 0;
	char text[16384], pattern[4096];

	if (directory) {
		snprintf(pattern, sizeof(pattern), "%s/*.fio", directory);
		ck_assert_int_eq(glob(pattern, 0, NULL, &files), 0);
	}
	for (unsigned long i = 0; i < nr; i++) {
		struct swap_options opt = show_options();
		struct swap_result result;
		char *error;

		if (i % 16 == 0)
			choose_seed(text, sizeof(text), &files, _i, &random);
		mutate(text, sizeof(text), &random);
		opt.fio = "/nowhere/fio"; /* the table answers, and faster */
		opt.run_dir = "/run";
		if (!swap_text(text, "split:4.9", &opt, &result, &error)) {
			FILE *null = fopen("/dev/null", "w");

			ck_assert_int_eq(
				swap_show(null, &(struct swap_input){ .path = "t" }, &result), 0);
			fclose(null);
		}
		ck_assert(!error != !result.text);
		free(error);
		swap_result_free(&result);
		opt.run_dir = NULL;
		/* native without anything to change gives back what it was given */
		if (!swap_text(text, "native", &opt, &result, &error) && !strstr(text, "include")) {
			assert_same(text, result.text, text);
			parsed++;
		}
		free(error);
		swap_result_free(&result);
	}
	globfree(&files);
	ck_assert_msg(!nr || parsed || strstr(seeds[_i], "include"), "no mutant was read");
}
END_TEST

static Suite *swap_suite(void)
{
	Suite *suite = suite_create("swap");
	TCase *tc = tcase_create("swap");

	tcase_set_timeout(tc, 60 + nr_random() / 40.0);
	tcase_add_unchecked_fixture(tc, make_directory, remove_directory);
	tcase_add_loop_test(tc, test_variant, 0, ARRAY_SIZE(variants));
	tcase_add_loop_test(tc, test_words, 0, ARRAY_SIZE(substitutions));
	tcase_add_loop_test(tc, test_lines, 0, ARRAY_SIZE(lines));
	tcase_add_loop_test(tc, test_bad_file, 0, ARRAY_SIZE(bad_files));
	tcase_add_test(tc, test_bad_path);
	tcase_add_test(tc, test_long_line);
	tcase_add_loop_test(tc, test_exchange, 0, ARRAY_SIZE(exchanges));
	tcase_add_test(tc, test_no_fio);
	tcase_add_test(tc, test_drop);
	tcase_add_test(tc, test_needs_engine);
	tcase_add_test(tc, test_show);
	tcase_add_loop_test(tc, test_override, 0, ARRAY_SIZE(overrides));
	tcase_add_test(tc, test_target);
	tcase_add_test(tc, test_variant_settings);
	tcase_add_test(tc, test_logs);
	tcase_add_loop_test(tc, test_refusal, 0, ARRAY_SIZE(refusals));
	tcase_add_test(tc, test_describe);
	tcase_add_test(tc, test_phases);
	tcase_add_test(tc, test_group_reporting);
	tcase_add_test(tc, test_targets);
	tcase_add_loop_test(tc, test_command, 0, ARRAY_SIZE(commands));
	tcase_add_test(tc, test_command_without_value);
	tcase_add_loop_test(tc, test_device, 0, ARRAY_SIZE(devices));
	tcase_add_test(tc, test_no_device);
	tcase_add_loop_test(tc, test_fuzz, 0, ARRAY_SIZE(seeds));
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(swap_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
