package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"
)

// The test binary is the programs of these tests, too: "sandbox.test as ROLE ARGUMENTS". It is a launcher without a
// word of this file.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "as" {
		os.Exit(m.Run())
	}
	role, ok := map[string]func(args []string) (any, error){
		"self": self, "attempts": attempts, "host": host, "protected": protected, "sleep": sleep,
	}[os.Args[2]]
	if !ok {
		fail(fmt.Errorf("no role %q", os.Args[2]))
	}
	answer, err := role(os.Args[3:])
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(err)
	}
	syscall.Exit(0) // unlike os.Exit it is at once with the race detector, too
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(99)
}

// selfReport is what a program sees of itself.
type selfReport struct {
	Args, Env  []string
	Inherited  []int // descriptors
	Stdin      string
	NoNewPrivs bool
	OOMScore   int
	UID        int
}

func self(args []string) (any, error) {
	r := selfReport{Args: append([]string{os.Args[0]}, args...), Env: os.Environ(), Inherited: inherited(),
		UID: os.Getuid()}
	noNewPrivs, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return nil, err
	}
	r.NoNewPrivs = noNewPrivs == 1
	if r.Stdin, err = os.Readlink("/proc/self/fd/0"); err != nil {
		return nil, err
	}
	r.OOMScore, err = oomScore()
	return r, err
}

// inherited are the open descriptors that this process has not opened itself: Go closes its own on exec.
func inherited() []int {
	var fds []int
	for fd := range 1024 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

func oomScore() (int, error) {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// attempts does one thing after the other and says for each "ok" or the name of the error: "read PATH", "write DIR",
// "rename DIR", "device DIR", "run PATH", "connect ADDRESS", "signal PID", "peek PID".
func attempts(args []string) (any, error) {
	var outcomes []string
	for pair := range slices.Chunk(args, 2) {
		act, ok := map[string]func(string) error{
			"read": read, "write": write, "rename": rename, "device": device, "signal": signal, "peek": peek, "connect": connect,
			"run": func(path string) error { return exec.CommandContext(context.Background(), path).Run() },
		}[pair[0]]
		if !ok {
			return nil, fmt.Errorf("no attempt %q", pair[0])
		}
		outcomes = append(outcomes, outcome(act(pair[1])))
	}
	return outcomes, nil
}

func outcome(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	default:
		return err.Error()
	}
}

func read(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		_, err = os.ReadDir(path)
		return err
	}
	_, err = os.ReadFile(path)
	return err
}

func write(dir string) error { return os.WriteFile(dir+"/new", []byte("text"), 0o600) }

func rename(dir string) error {
	if err := errors.Join(os.Mkdir(dir+"/a", 0o700), os.Mkdir(dir+"/b", 0o700),
		os.WriteFile(dir+"/a/file", nil, 0o600)); err != nil {
		return err
	}
	return os.Rename(dir+"/a/file", dir+"/b/file")
}

func device(dir string) error {
	return unix.Mknod(dir+"/device", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0)))
}

func signal(pid string) error {
	number, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	return unix.Kill(number, 0)
}

// peek reads a byte of the memory of a process. Whether it may is asked before whether there is any memory at this
// address.
func peek(pid string) error {
	number, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	if number == 0 {
		number = os.Getpid()
	}
	there, here := []byte{1}, []byte{0}
	address := uintptr(unsafe.Pointer(&there[0])) // #nosec G103 -- as the system call wants it
	n, err := unix.ProcessVMReadv(number, []unix.Iovec{{Base: &here[0], Len: 1}},
		[]unix.RemoteIovec{{Base: address, Len: 1}}, 0)
	runtime.KeepAlive(there)
	if err == nil && (n != 1 || here[0] != 1) {
		return fmt.Errorf("read %d bytes, %v", n, here)
	}
	return err
}

func connect(address string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func sleep([]string) (any, error) {
	if _, err := fmt.Fprintln(os.Stdout, "started"); err != nil {
		return nil, err
	}
	time.Sleep(5 * time.Minute) // longer than any test, but not for ever
	return nil, nil
}

// host launches a shell that tells its limits of open files.
func host([]string) (any, error) {
	shell, err := os.Open("/bin/sh")
	if err != nil {
		return nil, err
	}
	out, err := output(Spec{Program: shell, Path: "sh", Args: []string{"-c", "ulimit -Sn; ulimit -Hn"}}, nil)
	return strings.Fields(out), err
}

// protectedReport is what a protected process can and what others of the same user can.
type protectedReport struct {
	Before, After []string // attempts of an unconfined program at this process
	Metrics       []string
}

func protected([]string) (any, error) {
	look := func() ([]string, error) {
		me := fmt.Sprintf("/proc/%d/", os.Getpid())
		program, err := os.Open("/proc/self/exe")
		if err != nil {
			return nil, err
		}
		text, err := output(Spec{Program: program, Path: "look", Args: []string{"as", "attempts",
			"read", me + "environ", "read", me + "fd", "read", me + "stat"}}, nil)
		if err != nil {
			return nil, err
		}
		var outcomes []string
		return outcomes, errors.Join(err, json.Unmarshal([]byte(text), &outcomes))
	}
	var r protectedReport
	var err error
	if r.Before, err = look(); err != nil {
		return nil, err
	}
	if err := Protect(); err != nil {
		return nil, err
	}
	if r.After, err = look(); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{ReportErrors: true}))
	families, err := registry.Gather()
	for _, family := range families {
		r.Metrics = append(r.Metrics, family.GetName())
	}
	return r, err
}

// output runs a program and returns what it prints. What it says to standard error becomes a part of the error.
func output(spec Spec, attributes *syscall.SysProcAttr) (string, error) {
	cmd, err := Command(context.Background(), spec)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &stdout, &stderr, attributes
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), nil
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func writeFile(t *testing.T, path, text string, mode fs.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

// runs launches the test binary in a role and reads its answer into a value.
func runs[T any](t *testing.T, spec Spec, attributes *syscall.SysProcAttr, role string, args ...string) T {
	t.Helper()
	spec.Program = openFile(t, "/proc/self/exe")
	if spec.Path == "" {
		spec.Path = "program"
	}
	spec.Args = append([]string{"as", role}, args...)
	text, err := output(spec, attributes)
	if err != nil {
		t.Fatal(err)
	}
	var answer T
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s answers %q: %s", role, text, err)
	}
	return answer
}
