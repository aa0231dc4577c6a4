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
BASE_CFLAGS = $(CPPFLAGS) -std=gnu11 -pthread -fPIC -fvisibility=hidden $(WARNINGS) -D_GNU_SOURCE -Ishim -MMD -MP
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
	$(call say,CC)$(CC) $(SHIM_CFLAGS) -include config-paths.h -Itools $(CFLAGS) $(SANITIZE_FLAGS) -c -o $@ $<
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

# What kpolicy knows of where it is installed: changes with PREFIX=, and only then.
config-paths.h: FORCE
	@echo '#define KP_ENGINE_DIR "$(LIBDIR)/kpolicy"' >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(TOOL_OBJ) kpolicy.pc: config-paths.h
FORCE:

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
SHARE = $(PREFIX)/share
BASH_COMPLETION = $(SHARE)/bash-completion/completions
ZSH_COMPLETION = $(SHARE)/zsh/site-functions
FOLDERS = $(PREFIX)/bin $(PREFIX)/include $(LIBDIR)/pkgconfig $(LIBDIR)/kpolicy $(SHARE)/kpolicy/jobs \
	$(BASH_COMPLETION) $(ZSH_COMPLETION) $(addprefix $(MANDIR)/man,$(sort $(subst .,,$(suffix $(MAN))))) \
	$(FIO_ENGINE_DIR)
install: all
	install -d $(FOLDERS:%='$(D)%')
	install -m 644 shim/kpolicy.h '$(D)$(PREFIX)/include'
	install -m 644 $(LIB_A) $(LIB_SO) '$(D)$(LIBDIR)'
	cp -P $(LIB_LINKS) '$(D)$(LIBDIR)'
	install -m 644 kpolicy.pc '$(D)$(LIBDIR)/pkgconfig'
	install -m 644 $(ENGINE_SO) '$(D)$(LIBDIR)/kpolicy'
	install $(TOOL) '$(D)$(PREFIX)/bin'
	install -m 644 completion/kpolicy.bash '$(D)$(BASH_COMPLETION)/kpolicy'
	install -m 644 completion/_kpolicy '$(D)$(ZSH_COMPLETION)'
	for j in $(notdir $(wildcard jobs/*.fio)); do \
		sed 's|external:engines/|external:$(LIBDIR)/kpolicy/|' jobs/$$j \
			>'$(D)$(SHARE)/kpolicy/jobs'/$$j || exit; done
	for m in $(notdir $(MAN)); do \
		install -m 644 man/$$m '$(D)$(MANDIR)'/man$${m##*.}/$$m || exit; done
ifneq ($(FIO_ENGINE_DIR),)
	for e in $(ENGINES); do \
		ln -sf '$(LIBDIR)'/kpolicy/$$e.so '$(D)$(FIO_ENGINE_DIR)'/fio-kp-$$e.so || exit; done
endif

# Below DESTDIR the folders that are empty then go as well; elsewhere they may be anybody's.
uninstall:
	rm -f '$(D)$(PREFIX)/include/kpolicy.h' '$(D)$(PREFIX)/bin/kpolicy'
	rm -f '$(D)$(LIBDIR)'/libkpolicy.* '$(D)$(LIBDIR)/pkgconfig/kpolicy.pc'
	rm -rf '$(D)$(LIBDIR)/kpolicy' '$(D)$(SHARE)/kpolicy'
	rm -f '$(D)$(BASH_COMPLETION)/kpolicy' '$(D)$(ZSH_COMPLETION)/_kpolicy'
	for m in $(notdir $(MAN)); do rm -f '$(D)$(MANDIR)'/man$${m##*.}/$$m; done
ifneq ($(FIO_ENGINE_DIR),)
	for e in $(ENGINES); do rm -f '$(D)$(FIO_ENGINE_DIR)'/fio-kp-$$e.so; done
endif
	[ ! '$(D)' ] || (cd '$(D)' && rmdir -p $(FOLDERS:/%='%')) 2>/dev/null || true

# Debian packages for the machine's own fio, in build/deb. Built in a copy of what git has, so that
# this tree keeps its configuration.
deb: config-host.mak
	rm -rf build/deb && mkdir -p build/deb/kpolicy-$(VERSION)
	git ls-files -z | tar --null -T - -c | tar -x -C build/deb/kpolicy-$(VERSION)
	cd build/deb/kpolicy-$(VERSION) && \
		KP_CONFIGURE_ARGS='--fio-src=$(FIO_SRC)' dpkg-buildpackage -us -uc -b
	rm -r build/deb/kpolicy-$(VERSION)
	ls build/deb/*.deb

clean:
	rm -f shim/*/*.[od] shim/*/*/*.[od] engines/*.[od] engines/*.so tests/unit/*.[od]
	rm -f tools/*.[oda] tools/*/*.[od] tools/kpolicy
	rm -f shim/libkpolicy.a shim/libkpolicy.so* kpolicy.pc $(patsubst %.c,%,$(wildcard tests/unit/*.c))
distclean: clean
	rm -rf .fio build config-host.h config-host.mak config-paths.h config.log

.PHONY: FORCE all kernels test test-long bench golden test-fresh seeds check install uninstall deb clean distclean
.DELETE_ON_ERROR:

-include $(wildcard shim/*/*.d shim/*/*/*.d engines/*.d tools/*.d tools/*/*.d tests/unit/*.d)
