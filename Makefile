# SPDX-License-Identifier: GPL-2.0-only
#
# Everything is found by wildcard: a new policy, device, engine, tool, test, job or man page needs
# no edit here. V=1 shows the commands.

ifneq ($(filter-out clean distclean,$(or $(MAKECMDGOALS),all)),)
include config-host.mak
endif

CFLAGS ?= -O2 -g
WARNINGS = -Wall -Wextra -Wshadow -Wpointer-arith -Wwrite-strings -Wvla -Wold-style-definition \
	-Wstrict-prototypes -Wmissing-prototypes
# Hidden: kpolicy.h itself makes visible what it declares.
BASE_CFLAGS = -std=gnu11 -pthread -fPIC -fvisibility=hidden $(WARNINGS) -D_GNU_SOURCE -Ishim -MMD -MP
ifneq ($(SANITIZE),)
SANITIZE_FLAGS = -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined -fno-omit-frame-pointer
endif
SHIM_CFLAGS = $(BASE_CFLAGS) -include config-host.h $(LIB_CFLAGS)
# fio's headers are not ours to clean: -isystem keeps their warnings out.
ENGINE_CFLAGS = $(SHIM_CFLAGS) -include $(FIO_CONFIG) -isystem $(FIO_SRC)
# -Bsymbolic and the map: fio exports hundreds of symbols. nodelete: fio closes the handle while
# threads of ours may live. now: no lookup in the middle of a measurement.
SO_LDFLAGS = -shared -pthread -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,relro -Wl,--as-needed
ENGINE_LDFLAGS = $(SO_LDFLAGS) -Wl,-z,nodelete -Wl,--version-script=engines/engine.map

SHIM_OBJ := $(patsubst %.c,%.o,$(sort $(wildcard shim/*/*.c shim/policy/*/*.c)))
ENGINES := $(filter-out adaptor,$(basename $(notdir $(sort $(wildcard engines/*.c)))))
ENGINE_SO := $(ENGINES:%=engines/%.so)
ENGINE_OBJ := $(patsubst %.c,%.o,$(wildcard engines/*.c))
TOOL_OBJ := $(patsubst %.c,%.o,$(sort $(wildcard tools/*.c tools/*/*.c)))
TOOL_MAIN := tools/kpolicy.o
UNIT_OBJ := $(patsubst %.c,%.o,$(sort $(wildcard tests/unit/test_*.c)))
UNIT := $(UNIT_OBJ:.o=)
TEST_SH := $(sort $(foreach d,build fio kernel fault,$(wildcard tests/$(d)/*.sh)))
MAN := $(wildcard man/*.[1-9])

SOVERSION = $(firstword $(subst ., ,$(VERSION)))
LIB_A := shim/libkpolicy.a
LIB_SO = shim/libkpolicy.so.$(VERSION)
LIB_LINKS = shim/libkpolicy.so.$(SOVERSION) shim/libkpolicy.so
TOOL := $(if $(wildcard tools/kpolicy.c),tools/kpolicy)

comma := ,

ifeq ($(V),1)
say =
else
say = @printf '%-5s %s\n' $(1) $@;
endif

all: $(LIB_A) $(LIB_LINKS) kpolicy.pc $(ENGINE_SO) $(TOOL)

config-host.mak: configure scripts/fio-headers.sh
	./configure $(CONFIGURE_ARGS)
config-host.h: config-host.mak

# A new configuration (compiler, fio, sanitizer) makes every object stale.
$(SHIM_OBJ) $(TOOL_OBJ) $(ENGINE_OBJ) $(UNIT_OBJ): config-host.mak Makefile

$(SHIM_OBJ): %.o: %.c
	$(call say,CC)$(CC) $(SHIM_CFLAGS) $(CFLAGS) $(SANITIZE_FLAGS) -c -o $@ $<
$(ENGINE_OBJ): %.o: %.c
	$(call say,CC)$(CC) $(ENGINE_CFLAGS) $(CFLAGS) $(SANITIZE_FLAGS) -c -o $@ $<
$(TOOL_OBJ): %.o: %.c
	$(call say,CC)$(CC) $(SHIM_CFLAGS) -Itools $(CFLAGS) $(SANITIZE_FLAGS) -c -o $@ $<
$(UNIT_OBJ): %.o: %.c
	$(call say,CC)$(CC) $(SHIM_CFLAGS) -Itools $(CHECK_CFLAGS) $(CFLAGS) $(SANITIZE_FLAGS) -c -o $@ $<

$(LIB_A): $(SHIM_OBJ)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^
$(LIB_SO): $(SHIM_OBJ) shim/libkpolicy.map
	$(call say,LD)$(CC) $(SO_LDFLAGS) $(SANITIZE_FLAGS) -Wl,-soname,libkpolicy.so.$(SOVERSION) \
		-Wl,--version-script=shim/libkpolicy.map $(LDFLAGS) -o $@ $(SHIM_OBJ) $(LIBS) -lm
$(LIB_LINKS): $(LIB_SO)
	$(call say,LN)ln -sf $(notdir $<) $@
$(ENGINE_SO): engines/%.so: engines/%.o engines/adaptor.o $(LIB_A) engines/engine.map
	$(call say,LD)$(CC) $(ENGINE_LDFLAGS) $(SANITIZE_FLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) \
		$(LIBS) -lm
tools/tools.a: $(filter-out $(TOOL_MAIN),$(TOOL_OBJ))
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^
tools/kpolicy: $(TOOL_MAIN) tools/tools.a $(LIB_A)
	$(call say,LD)$(CC) -pthread $(SANITIZE_FLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) -lm
$(UNIT): %: %.o $(if $(TOOL_OBJ),tools/tools.a) $(LIB_A)
	$(call say,LD)$(CC) -pthread $(SANITIZE_FLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LIBS) -lm

# The calls of the library that this test lets fail.
tests/unit/test_set_up: LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc \
	aligned_alloc mmap madvise open fcntl ioctl statx fstat fopen opendir eventfd pthread_create \
	io_setup io_uring_queue_init io_uring_register_files_sparse io_uring_register_files_update \
	io_uring_register_buffers)

PC_VARS = s|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|; s|@LIBS@|$(LIBS)|
kpolicy.pc: shim/kpolicy.pc.in config-host.mak Makefile
	$(call say,GEN)sed '$(PC_VARS)' $< >$@

# What the scripts need to know of the build.
RUN = KP_FIO='$(FIO)' KP_FIO_VERSION='$(FIO_VERSION)' KP_FIO_SRC='$(FIO_SRC)' KP_CC='$(CC)' \
	KP_SANITIZE='$(SANITIZE)' KP_ENGINES='$(ENGINES)' KP_LIBS='$(LIBS) -lm' \
	KP_SHIM_CFLAGS='$(filter-out -M%,$(SHIM_CFLAGS))' \
	KP_ENGINE_CFLAGS='$(filter-out -M%,$(ENGINE_CFLAGS)) $(SANITIZE_FLAGS)' \
	KP_ENGINE_LDFLAGS='$(ENGINE_LDFLAGS)'

# Two tests at a time: most of them wait. What measures time alone is in bench.
test: all $(UNIT)
	@$(RUN) KP_JOBS=$(or $(KP_JOBS),2) sh tests/run $(or $(TESTS),$(UNIT) $(TEST_SH))
test-long: all
	@$(RUN) sh tests/run $(sort $(wildcard tests/long/*.sh))
bench: all
	@$(RUN) sh tests/run --show $(or $(TESTS),$(sort $(wildcard tests/bench/*.sh)))
# What kpolicy prints, to be compared with from now on.
golden: all
	@$(RUN) KP_GOLDEN=renew sh tests/run --show tests/fio/kpolicy-golden.sh
# Record the kernels of .kernels once more and compare; see scripts/kernel-lab --help.
kernels:
	@sh scripts/kernel-lab --compare $(KERNELS)
test-fresh:
	@sh tests/fresh.sh
seeds: all
	@$(RUN) tools/kpolicy reproduce

# What a build does not need; a tool that is missing is named with its package.
check: all $(UNIT)
	@$(RUN) sh scripts/check.sh $(wildcard shim/*.h shim/*/*.[ch] shim/*/*/*.[ch] engines/*.[ch] \
		tools/*.[ch] tools/*/*.[ch] tests/unit/*.[ch] examples/*.c)

D = $(DESTDIR)
BASH_COMPLETION = $(PREFIX)/share/bash-completion/completions/kpolicy
ZSH_COMPLETION = $(PREFIX)/share/zsh/site-functions/_kpolicy
install: all
	install -d '$(D)$(PREFIX)/include' '$(D)$(LIBDIR)/pkgconfig' '$(D)$(LIBDIR)/kpolicy'
	install -m 644 shim/kpolicy.h '$(D)$(PREFIX)/include'
	install -m 644 $(LIB_A) '$(D)$(LIBDIR)'
	install $(LIB_SO) '$(D)$(LIBDIR)'
	cp -P $(LIB_LINKS) '$(D)$(LIBDIR)'
	install -m 644 kpolicy.pc '$(D)$(LIBDIR)/pkgconfig'
	for e in $(ENGINES); do install engines/$$e.so '$(D)$(LIBDIR)/kpolicy' || exit; done
ifneq ($(FIO_ENGINE_DIR),)
	install -d '$(D)$(FIO_ENGINE_DIR)'
	for e in $(ENGINES); do \
		ln -sf '$(LIBDIR)'/kpolicy/$$e.so '$(D)$(FIO_ENGINE_DIR)'/fio-$$e.so || exit; done
endif
ifneq ($(TOOL),)
	install -d '$(D)$(PREFIX)/bin'
	install $(TOOL) '$(D)$(PREFIX)/bin'
	install -D -m 644 completion/kpolicy.bash '$(D)$(BASH_COMPLETION)'
	install -D -m 644 completion/_kpolicy '$(D)$(ZSH_COMPLETION)'
endif
	install -d '$(D)$(PREFIX)/share/kpolicy/jobs'
	for j in $(notdir $(wildcard jobs/*.fio)); do \
		sed 's|external:engines/|external:$(LIBDIR)/kpolicy/|' jobs/$$j \
			>'$(D)$(PREFIX)/share/kpolicy/jobs'/$$j || exit; done
	for m in $(notdir $(MAN)); do \
		install -D -m 644 man/$$m '$(D)$(MANDIR)'/man$${m##*.}/$$m || exit; done

uninstall:
	rm -f '$(D)$(PREFIX)/include/kpolicy.h' '$(D)$(PREFIX)/bin/kpolicy'
	rm -f '$(D)$(LIBDIR)'/libkpolicy.* '$(D)$(LIBDIR)/pkgconfig/kpolicy.pc'
	rm -rf '$(D)$(LIBDIR)/kpolicy' '$(D)$(PREFIX)/share/kpolicy'
	rm -f '$(D)$(BASH_COMPLETION)' '$(D)$(ZSH_COMPLETION)'
	for m in $(notdir $(MAN)); do rm -f '$(D)$(MANDIR)'/man$${m##*.}/$$m; done
ifneq ($(FIO_ENGINE_DIR),)
	for e in $(ENGINES); do rm -f '$(D)$(FIO_ENGINE_DIR)'/fio-$$e.so; done
endif

clean:
	rm -f shim/*/*.[od] shim/*/*/*.[od] engines/*.[od] engines/*.so tests/unit/*.[od]
	rm -f tools/*.[oda] tools/*/*.[od] tools/kpolicy
	rm -f shim/libkpolicy.a shim/libkpolicy.so* kpolicy.pc $(patsubst %.c,%,$(wildcard tests/unit/*.c))
distclean: clean
	rm -rf .fio build config-host.h config-host.mak config.log

.PHONY: all kernels test test-long bench golden test-fresh seeds check install uninstall clean distclean
.DELETE_ON_ERROR:

-include $(wildcard shim/*/*.d shim/*/*/*.d engines/*.d tools/*.d tools/*/*.d tests/unit/*.d)
