package rogue

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1" //nolint:depguard // it does without the sdk
)

const (
	heartbeat = `heartbeat {}`
	succeeds  = `result { succeeded { exports: '{}' } }`
)

// sayings are the messages that a call consists of. The empty one is as it should be.
var sayings = map[string][]string{
	"":             {succeeds},
	"no-result":    {},
	"two-results":  {succeeds, `result { failed { errors { message: "no, it failed" } } }`},
	"json-exports": {`result { succeeded { exports: '{"apiVersion":' } }`},
	"json-status":  {`provider_status { sequence: 1 document: '{"apiVersion":' }`, succeeds},
}

// leaked is memory that is never given back.
var leaked [][]byte

// call is one call of the host.
type call struct {
	grpc.BidiStreamingServer[deployerv1.HostMessage, deployerv1.PluginMessage]
}

// do does what an item asks for, or says it. An item that asks for nothing succeeds.
func (c call) do(what string) error {
	switch what {
	case "exit":
		os.Exit(7)
	case "panics":
		go func() { panic("a secret of the goroutine's") }() //nolint:forbidigo // where no server could catch it
		sleep()
	case "hang":
		sleep()
	case "linger": // with signs of life, whatever the host wants
		for range time.Tick(time.Second) {
			_ = c.say(heartbeat) // it fails once the call was cancelled
		}
	case "fork":
		return fork()
	case "leak":
		return c.leak()
	case "too-large":
		return c.sayTooMuch()
	}
	messages, ok := sayings[what]
	if !ok {
		return status.Errorf(codes.Unimplemented, "there is no %q", what)
	}
	return c.say(messages...)
}

// say sends messages, which are in the text format of protocol buffers.
func (c call) say(messages ...string) error {
	for _, text := range messages {
		m := &deployerv1.PluginMessage{}
		if err := prototext.Unmarshal([]byte(text), m); err != nil {
			return err
		}
		if err := c.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// sayTooMuch sends exports that no message may have. They do not go through the text format, which takes seconds for
// them.
func (c call) sayTooMuch() error {
	exports := []byte(`{"large":"` + strings.Repeat("x", maxSend-1<<20) + `"}`)
	succeeded := &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{Exports: exports}}
	result := &deployerv1.PluginMessage_Result{Result: &deployerv1.Result{Outcome: succeeded}}
	return c.Send(&deployerv1.PluginMessage{Content: result})
}

// fork leaves a child behind, which holds on to the plugin's standard error. Its process id is in the log.
func fork() error {
	child := exec.Command("sleep", "300") //nolint:noctx // it is to outlive its call
	child.Stderr = stderr
	if err := child.Start(); err != nil {
		return err
	}
	slog.New(slog.NewJSONHandler(stderr, nil)).Info("child", "pid", child.Process.Pid)
	os.Exit(7)
	return nil
}

// leak takes more and more memory, and gives signs of life meanwhile.
func (c call) leak() error {
	const bytes, page = 8 << 20, 4 << 10
	for range time.Tick(50 * time.Millisecond) {
		block := make([]byte, bytes)
		for i := 0; i < len(block); i += page { // only what is written to takes memory
			block[i] = 1
		}
		leaked = append(leaked, block)
		if err := c.say(heartbeat); err != nil {
			return err
		}
	}
	return nil
}
