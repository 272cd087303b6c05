package plugin

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// The test binary is every plugin of these tests. A plugin's environment is not the test's to choose, so it is the name
// of the file that says what the program does: role, and then, each after an underscore, the name and the type that the
// plugin claims.
func TestMain(m *testing.M) {
	role, _, _ := strings.Cut(filepath.Base(os.Args[0]), "_")
	program, ok := programs()[role]
	if !ok {
		_ = flag.Set("test.parallel", "4") // more than half of the tests' time is waiting
		os.Exit(m.Run())
	}
	program()
}

func programs() map[string]func() {
	return map[string]func(){
		// Programs that are plugins.
		"echo": func() { sdk.Serve(echo{}, sdk.Name("echo"), sdk.Version("v1"), sdk.Types(echoType)) },
		"raw":  func() { serveRaw(claim()) },
		"hooks": func() { // nothing but hooks, for the items of echo and for others
			none := func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
				return nil, nil
			}
			sdk.ServeHooks(hook.Hooks{}.RegisterHook(none, hook.End), sdk.Name("audit"), sdk.Version("v2"),
				sdk.HookedTypes("test.pergola.dev/other", echoType))
		},
		"changeling": func() {
			serveRaw(fmt.Sprintf("life%d", count()), string(echoType))
		},
		"fails2": func() {
			if count() <= 2 {
				os.Exit(3)
			}
			serveRaw(claim())
		},
		"once": func() { // no start but the first one succeeds
			if count() > 1 {
				os.Exit(3)
			}
			serveRaw(claim())
		},
		"flood": func() {
			go func() {
				for block := make([]byte, 32<<10); ; {
					_, _ = os.Stderr.Write(block)
				}
			}()
			serveRaw(claim())
		},
		"parent": func() {
			startSleeper(&syscall.SysProcAttr{})
			serveRaw(claim())
		},
		"leader": func() {
			startSleeper(&syscall.SysProcAttr{Setpgid: true})
			serveRaw(claim())
		},
		"daemon": func() { // the child is an orphan in a session of its own, without the plugin's environment
			partial := trace("pid.partial")
			cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", "setsid env -i /bin/sh -c "+
				"'sleep 300 >/dev/null 2>&1 & echo $! >"+partial+"; mv "+partial+" "+trace("pid")+"'")
			if err := cmd.Run(); err != nil {
				fail(err)
			}
			serveRaw(claim())
		},
		"deserter": func() {
			startSleeper(&syscall.SysProcAttr{Setsid: true})
			serveRaw(claim())
		},
		"stubborn": func() {
			serveRaw(claim())
			sleep()
		},

		// Programs that are none.
		"crash": func() { os.Exit(3) },
		"exit":  func() { os.Exit(0) },
		"felled": func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			sleep()
		},
		"mutters": func() {
			_, _ = os.Stderr.WriteString("libfoo.so is missing")
			os.Exit(127)
		},
		"bereaved": func() {
			startSleeper(&syscall.SysProcAttr{})
			os.Exit(3)
		},
		"silent": func() {
			leave("started", "yes")
			sleep()
		},
		"garbage":   func() { say("Hello, \xff I am no plugin.\nReally.") },
		"unbound":   func() { say("1|1|unix|/nowhere|grpc") },
		"sleeper":   sleep,
		"hostchild": hostUntilKilled,
	}
}

const echoType v1alpha1.DeployItemType = "test.pergola.dev/echo"

// claim returns the name and the type that the file asks for.
func claim() (name, itemType string) {
	parts := strings.Split(filepath.Base(os.Args[0]), "_")
	name, itemType = parts[0], string(echoType)
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		itemType = parts[2]
	}
	return name, itemType
}

// sleep blocks for longer than any test does, but not for ever, should one leave a process behind.
func sleep() { time.Sleep(5 * time.Minute) }

func say(text string) {
	fmt.Fprintln(os.Stdout, text)
	sleep()
}

// trace is a file beside the plugin. It is hidden, and so passed over by the host.
func trace(name string) string {
	return filepath.Join(filepath.Dir(os.Args[0]), "."+name)
}

func leave(name, text string) {
	partial := trace(name + ".partial")
	if err := os.WriteFile(partial, []byte(text), 0o600); err != nil {
		fail(err)
	}
	if err := os.Rename(partial, trace(name)); err != nil { // whoever finds the file finds all of it
		fail(err)
	}
}

// count returns how often this program was started.
func count() int {
	file := trace(filepath.Base(os.Args[0]) + ".count")
	before, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		fail(err)
	}
	if err := os.WriteFile(file, append(before, '.'), 0o600); err != nil {
		fail(err)
	}
	return len(before) + 1
}

// startSleeper starts a process that holds on to standard output and error, and leaves its process id.
func startSleeper(attributes *syscall.SysProcAttr) {
	self, err := os.Executable()
	if err != nil {
		fail(err)
	}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Args[0] = "sleeper"
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = attributes
	if err := cmd.Start(); err != nil {
		fail(err)
	}
	leave("pid", strconv.Itoa(cmd.Process.Pid))
}

// hostUntilKilled is a host of its own: it launches the plugin that its first argument names, and tells the process id.
func hostUntilKilled() {
	program := launch.NewProgram(filepath.Dir(os.Args[1]), filepath.Base(os.Args[1]))
	if _, err := program.Open(); err != nil {
		fail(err)
	}
	settings := launch.Settings{TempDir: os.Args[2], Timeout: time.Minute, Clock: clock.RealClock{}}
	p, err := program.Launch(context.Background(), launch.Profile{}, settings, slog.New(slog.DiscardHandler))
	if err != nil {
		fail(err)
	}
	say(strconv.Itoa(p.Pid()))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(99)
}

// echo is a well-behaved deployer: the name of the item says what it is to do.
type echo struct{}

var (
	_ sdk.Deployer  = echo{}
	_ sdk.Validator = echo{}
	_ sdk.Watcher   = echo{}
)

func (echo) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	switch req.DeployItem.Name {
	case "stop":
		req.Progress("waiting", "to be stopped")
		<-req.Stopping()
		return sdk.WaitFor("another call", time.Minute), nil
	case "exit":
		_, _ = fmt.Fprintln(os.Stderr, "my last words")
		os.Exit(7)
	}
	exports := map[string]any{"name": req.DeployItem.Name, "job": req.JobID, "context": req.Context.Name}
	if req.Target != nil {
		exports["target"] = string(req.Target.Content)
	}
	return &sdk.Response{Exports: exports}, nil
}

func (echo) Delete(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }

func (echo) Validate(context.Context, *sdk.Request) (*sdk.ValidateResponse, error) { return nil, nil }

// Watch wakes an item that the host names, and goes on until the host has had enough.
func (echo) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	items, err := req.Items(ctx)
	if err != nil {
		return err
	}
	item, err := req.Request(ctx, items[0].Namespace, items[0].Name)
	if err != nil {
		return err
	}
	req.Wake("default", item.DeployItem.Name)
	<-ctx.Done()
	return nil
}
