package sandbox

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// needsLandlock skips a test where the kernel cannot do what it is about.
func needsLandlock(t *testing.T, abi int) {
	t.Helper()
	if support := Supported(); support.ABI < abi {
		t.Skipf("needs Landlock with ABI %d, and here is %s", abi, support)
	}
}

// place is a machine's directory with what a program should see and what it should not.
type place struct{ own, read, token, other string }

func newPlace(t *testing.T, uid int) place {
	t.Helper()
	root := t.TempDir()
	p := place{own: root + "/own", read: root + "/read", token: root + "/secrets/token", other: root + "/other"}
	for _, dir := range []string{p.own, p.read, filepath.Dir(p.token), p.other} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // others do not come through else
		t.Fatal(err)
	}
	writeFile(t, p.token, "secret", 0o644)
	writeFile(t, p.read+"/file", "text", 0o644)
	writeFile(t, p.other+"/program", "#!/bin/sh\n", 0o755)
	return p
}

// attempt is what a program tries, and what comes of it; since is the version of Landlock's interface that it takes.
type attempt struct {
	act, on, want string
	reason        string
	since         int
}

// Rule (SECURITY.md#plugins): A confined plugin reads neither the host's token nor other plugins' files.
func TestConfinedProgram(t *testing.T) {
	needsLandlock(t, 1)
	for name, uid := range map[string]int{"as this user": os.Getuid(), "as a user without rights": nobody} {
		t.Run(name, func(t *testing.T) {
			attributes := &syscall.SysProcAttr{}
			if uid != os.Getuid() {
				if os.Getuid() != 0 {
					t.Skip("only root may start a program as another user")
				}
				attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
			}
			p := newPlace(t, uid)
			certificate := writeFile(t, filepath.Dir(p.token)+"/ca.crt", "certificate", 0o644)
			var config net.ListenConfig
			listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			parent := "/proc/" + strconv.Itoa(os.Getpid())
			expected := []attempt{
				{act: "read", on: p.token, want: "EACCES", reason: "the token of the host is not for it"},
				{act: "read", on: filepath.Dir(p.token), want: "EACCES", reason: "nor is the list of secrets"},
				{act: "read", on: p.other + "/program", want: "EACCES", reason: "nor are other programs' files"},
				{act: "run", on: p.other + "/program", want: "EACCES", reason: "nor their execution"},
				{act: "read", on: parent + "/environ", want: "EACCES", reason: "the host's environment may hold secrets"},
				{act: "read", on: parent + "/cmdline", want: "EACCES", reason: "of other processes it sees nothing"},
				{act: "read", on: "/proc", want: "EACCES", reason: "not even which there are"},
				{act: "peek", on: strconv.Itoa(os.Getpid()), want: "EPERM", reason: "nor what is in their memory"},
				{act: "peek", on: "0", want: "ok", reason: "its own is its own"},
				{act: "read", on: "/proc/self/status", want: "ok", reason: "it sees itself"},
				{act: "read", on: "/proc/self/environ", want: "ok", reason: "it sees itself"},
				{act: "read", on: "/proc/self/mountinfo", want: "ok", reason: "Go looks for the limit of processors there"},
				{act: "read", on: "/sys/fs/cgroup", want: "ok", reason: "Go looks for the limit of processors there"},
				{act: "read", on: "/proc/sys/net/core/somaxconn", want: "ok", reason: "Go listens with that backlog"},
				{act: "read", on: "/etc/resolv.conf", want: "ok", reason: "it finds hosts"},
				{act: "read", on: "/etc/hosts", want: "ok", reason: "it finds hosts"},
				{act: "read", on: "/etc/ssl/certs", want: "ok", reason: "it knows authorities"},
				{act: "read", on: certificate, want: "ok", reason: "SSL_CERT_FILE names it"},
				{act: "read", on: p.read + "/file", want: "ok", reason: "the operator allows it"},
				{act: "write", on: p.read, want: "EACCES", reason: "the operator allows reading"},
				{act: "write", on: "/dev/shm", want: "EACCES", reason: "others see what is there"},
				{act: "write", on: p.own, want: "ok", reason: "it has a directory of its own"},
				{act: "rename", on: p.own, want: "ok", reason: "it may do there what it wants", since: abiRename},
				{act: "device", on: p.own, want: "EACCES", reason: "but a device leads out of it"},
				{act: "run", on: "/bin/true", want: "ok", reason: "it may need the system's programs"},
				{act: "connect", on: listener.Addr().String(), want: "ok", reason: "it talks to clusters"},
				{act: "signal", on: strconv.Itoa(os.Getpid()), want: "EPERM", reason: "it must not stop the host",
					since: abiScopes},
			}
			expected = slices.DeleteFunc(expected, func(a attempt) bool {
				_, err := os.Stat(a.on)
				missing := a.want == "ok" && strings.HasPrefix(a.on, "/") && errors.Is(err, fs.ErrNotExist)
				if missing {
					t.Logf("%s is not on this machine", a.on)
				}
				return missing || a.since > Supported().ABI
			})
			var args []string
			for _, a := range expected {
				args = append(args, a.act, a.on)
			}
			outcomes := runs[[]string](t, Spec{
				Confinement: Required,
				Env:         []string{"SSL_CERT_FILE=" + certificate},
				Read:        []string{p.read, "/no/such/path"},
				Write:       []string{p.own},
			}, attributes, "attempts", args...)
			for i, a := range expected {
				if outcomes[i] != a.want {
					t.Errorf("%s %s: got %s, want %s: %s", a.act, a.on, outcomes[i], a.want, a.reason)
				}
			}
		})
	}
}

// What confinement forbids is possible without, so that the test above shows confinement's work.
func TestProgramWithoutConfinement(t *testing.T) {
	p := newPlace(t, os.Getuid())
	for name, run := range map[string]struct {
		mode    Mode
		support Support
	}{
		"off":                   {Off, Supported()},
		"auto, and no Landlock": {Auto, Support{Reason: "of the test"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, err := command(t.Context(), Spec{Program: openFile(t, "/proc/self/exe"), Path: "p", Confinement: run.mode,
				Args: []string{"as", "attempts", "read", p.token, "signal", strconv.Itoa(os.Getpid())}}, run.support)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := cmd.Output(); err != nil || string(out) != `["ok","ok"]`+"\n" {
				t.Errorf("got %q, error %v", out, err)
			}
		})
	}
}

// Rule (SECURITY.md#plugins): With `confinement.mode: required` nothing runs where the kernel cannot confine.
func TestRequiredNeedsLandlock(t *testing.T) {
	_, err := command(t.Context(), Spec{Program: openFile(t, "/proc/self/exe"), Path: "p", Confinement: Required},
		Support{Reason: "the kernel is too old"})
	want := "cannot confine it: confinement is required, but there is none: the kernel is too old; " +
		"run on Linux 5.13 or later with landlock among the modules of lsm=, or do not require it (unsupported operation)"
	if !errors.Is(err, errors.ErrUnsupported) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSupportSaysWhatIsInForce(t *testing.T) {
	for want, support := range map[string]Support{
		"none: the kernel is too old":                                          {Reason: "the kernel is too old"},
		"landlock (ABI 1): files":                                              {ABI: 1},
		"landlock (ABI 5): files, devices":                                     {ABI: 5},
		"landlock (ABI 7): files, devices, signals, abstract sockets":          {ABI: 7},
		"landlock (ABI 9): files, devices, signals, abstract sockets, sockets": {ABI: 9},
	} {
		if got := support.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestProtectedProcessIsClosedToItsUser(t *testing.T) {
	attributes := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // root may look into everything
		attributes.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	got := runs[protectedReport](t, Spec{}, attributes, "protected")
	want := protectedReport{
		Before: []string{"ok", "ok", "ok"},
		After:  []string{"EACCES", "EACCES", "ok"},
		Metrics: []string{"process_cpu_seconds_total", "process_max_fds", "process_network_receive_bytes_total",
			"process_network_transmit_bytes_total", "process_open_fds", "process_resident_memory_bytes",
			"process_start_time_seconds", "process_virtual_memory_bytes", "process_virtual_memory_max_bytes"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
