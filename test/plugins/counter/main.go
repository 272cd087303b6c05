// Command counter is a deployer for tests of many hosts: its calls take as long as their item says, and leave evidence, across all
// processes of the machine, of whether two calls for one item were ever under way at the same time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// config is the provider configuration.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Dir is a directory for the evidence. Its files are named after namespace and name of the item: "<item>.log" has a record for
	// the beginning and the end of each call, "<item>.count" how many calls have come to their end, and "<item>.lock" is locked for
	// the time of a call. The file "overlaps" gets a record for each call that has found another one under way.
	Dir string `json:"dir"`
	// Millis is how long a call takes.
	Millis int `json:"millis,omitempty"`
	// Polls is how many calls of a job leave it in progress before one ends it.
	Polls int `json:"polls,omitempty"`
	// PollMillis is the pause between these calls.
	PollMillis int `json:"pollMillis,omitempty"`
	// ContinuousReconcile is the schedule. It counts only with the argument schedules.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`
}

type counter struct{}

// scheduler is a counter with schedules. Without them the plugin has no hooks, which would cost those who measure something else.
type scheduler struct{ counter }

var (
	_ sdk.Deployer = counter{}
	_ sdk.Hooker   = scheduler{}
)

func main() {
	var deployer sdk.Deployer = counter{}
	if len(os.Args) > 1 && os.Args[1] == "schedules" {
		deployer = scheduler{}
	}
	sdk.Serve(deployer, sdk.Name("counter"), sdk.Version("v1"), sdk.Types("test.pergola.dev/counter"))
}

// Hooks are the schedule.
func (scheduler) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(continuousreconcile.ReadSpec)))
}

// Reconcile counts.
func (counter) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return count(ctx, "Reconcile", req)
}

// Delete counts, too.
func (counter) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return count(ctx, "Delete", req)
}

func count(ctx context.Context, operation string, req *sdk.Request) (response *sdk.Response, err error) {
	c := &config{}
	if err := req.DecodeConfig(c); err != nil {
		return nil, err
	}
	e := &evidence{dir: c.Dir, item: req.DeployItem.Namespace + "-" + req.DeployItem.Name, operation: operation, req: req}
	unlock, err := e.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := e.record(e.item+".log", "begin", ""); err != nil {
		return nil, err
	}
	before, err := e.count()
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Duration(c.Millis)*time.Millisecond); err != nil {
		return nil, errors.Join(err, e.record(e.item+".log", "end", "cancelled"))
	}
	// Whoever has counted meanwhile is forgotten here, which betrays both.
	if err := e.write(before + 1); err != nil {
		return nil, err
	}
	begun, err := 1, error(nil)
	if c.Polls > 0 { // the log of an item that is reconciled for hours is long
		begun, err = e.begun()
	}
	if err != nil {
		return nil, err
	}
	if begun <= c.Polls {
		text := fmt.Sprintf("call %d of %d", begun+1, c.Polls+1)
		return sdk.WaitFor(text, time.Duration(c.PollMillis)*time.Millisecond), e.record(e.item+".log", "end", "in progress")
	}
	return nil, e.record(e.item+".log", "end", "succeeded")
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// evidence of one call.
type evidence struct {
	dir, item, operation string
	req                  *sdk.Request
}

// lock locks the item against all calls of all processes, until unlock is called or the process has ended. A call that finds the item
// locked says so, and waits for nobody.
func (e *evidence) lock() (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(e.dir, e.item+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return f.Close, e.record("overlaps", "overlap", "")
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	return f.Close, nil
}

// record is a line of a log.
type record struct {
	Time      time.Time `json:"time"`
	Event     string    `json:"event"`
	Outcome   string    `json:"outcome,omitempty"`
	Operation string    `json:"operation"`
	JobID     string    `json:"jobID"`
	UID       string    `json:"uid"`
	Name      string    `json:"name"`
	PID       int       `json:"pid"`
}

func (e *evidence) record(file, event, outcome string) error {
	line, err := json.Marshal(record{
		Time: time.Now(), Event: event, Outcome: outcome, Operation: e.operation, JobID: e.req.JobID,
		UID: string(e.req.DeployItem.UID), Name: e.req.DeployItem.Name, PID: os.Getpid(),
	})
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(e.dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return f.Close()
}

// begun is how many calls there were for the job, with this one.
func (e *evidence) begun() (n int, err error) {
	content, err := os.ReadFile(filepath.Join(e.dir, e.item+".log"))
	if err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return 0, fmt.Errorf("read log: %w", err)
		}
		if r.Event == "begin" && r.JobID == e.req.JobID {
			n++
		}
	}
	return n, nil
}

// count is how many calls have come to their end.
func (e *evidence) count() (int, error) {
	content, err := os.ReadFile(filepath.Join(e.dir, e.item+".count"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read count: %w", err)
	}
	n, err := strconv.Atoi(string(content))
	if err != nil {
		return 0, fmt.Errorf("read count: %w", err)
	}
	return n, nil
}

// write replaces the count at once: the process may be killed at any time.
func (e *evidence) write(count int) error {
	file := filepath.Join(e.dir, e.item+".count")
	next := fmt.Sprintf("%s-%d", file, os.Getpid())
	if err := os.WriteFile(next, strconv.AppendInt(nil, int64(count), 10), 0o600); err != nil {
		return fmt.Errorf("write count: %w", err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("write count: %w", err)
	}
	return nil
}
