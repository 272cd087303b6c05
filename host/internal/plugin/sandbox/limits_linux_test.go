package sandbox

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/test/await"
)

func TestLimitsAreInForce(t *testing.T) {
	shell := openFile(t, "/bin/sh")
	got, err := output(Spec{Program: shell, Path: "sh", Args: []string{"-c",
		"ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc; ulimit -Sd; ulimit -Hd"},
		OpenFiles: 77, MemoryBytes: 64 << 20, Confinement: Auto}, nil)
	data := strconv.Itoa((2*64 + 512) << 10) // the shell counts in KiB
	if want := strings.Join([]string{"77", "77", "0", "0", data, data, ""}, "\n"); err != nil || got != want {
		t.Errorf("got %q, want %q, error %v", got, want, err)
	}
}

// Go raises the limit of open files for itself. A program must get what this process got.
func TestOriginalLimitOfOpenFilesIsPassedOn(t *testing.T) {
	const soft = "123"
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c",
		"ulimit -Hn >&2; ulimit -Sn "+soft+"; exec "+test+" as host").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s", err, out)
	}
	hard, got, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	if want := fmt.Sprintf("[%q,%q]", soft, hard); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A session has the memory of all its processes, whatever their groups.
func TestMemoryOfSession(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c",
		"/proc/"+strconv.Itoa(os.Getpid())+"/exe as sleep & read line; exit")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	session := cmd.Process.Pid
	kill := func() {
		_ = syscall.Kill(-session, syscall.SIGKILL) // it may have ended
		_ = stdin.Close()
		_ = cmd.Wait() // it was killed
	}
	defer kill()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("the program says %q, error %v", line, err)
	}
	if bytes, err := SessionBytes(session); err != nil || bytes < 3<<20 || bytes > 1<<34 { // more than a shell
		t.Errorf("got %d bytes, error %v", bytes, err)
	}
	kill()
	await.That(t, 10*time.Second, "the session to be gone", func() bool {
		bytes, err := SessionBytes(session)
		return err == nil && bytes == 0
	})
}

func TestParseStat(t *testing.T) {
	rest := " S 41 42 43 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 7 22"
	for _, test := range []struct {
		reason, text string
		fails        bool
	}{
		{reason: "a plain name", text: "1 (init)" + rest},
		{reason: "a name made to mislead", text: "1 (a) R 9 9 (b c\n)" + rest},
		{reason: "nothing", text: "", fails: true},
		{reason: "too few fields", text: "1 (init) S 1 42", fails: true},
		{reason: "no number", text: "1 (init)" + strings.Replace(rest, "43", "x", 1), fails: true},
	} {
		stat, err := parseStat([]byte(test.text))
		right := stat.session == 43 && stat.residentBytes == 7*uint64(os.Getpagesize())
		if (err != nil) != test.fails || err == nil && !right {
			t.Errorf("%s: found %+v, error %v", test.reason, stat, err)
		}
	}
}
