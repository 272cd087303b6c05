// Package watchdog hears each answer and the log of a plugin, and reports credentials and panics there.
package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Breach names a rule, as package conformance does.
type Breach string

// The rules.
const (
	Credentials Breach = "credentials"
	Panics      Breach = "panics"
	Result      Breach = "result"
)

// Watchdog hears a plugin. The zero value has no secrets and reports nothing.
type Watchdog struct {
	Secrets Secrets

	mu     sync.Mutex
	report func(Breach, string)
}

// ReportTo replaces the receiver of breaches until the call of undo.
func (w *Watchdog) ReportTo(report func(Breach, string)) (undo func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.report
	w.report = report
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.report = before
	}
}

func (w *Watchdog) breaks(rule Breach, format string, args ...any) {
	w.mu.Lock()
	report := w.report
	w.mu.Unlock()
	if report != nil {
		report(rule, fmt.Sprintf(format, args...))
	}
}

// DialOptions hear the answers of a connection.
func (w *Watchdog) DialOptions() []grpc.DialOption {
	unary := func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		err := invoke(ctx, method, in, out, conn, opts...)
		w.hear(method, out, err)
		if err == nil {
			w.judge(method, out)
		}
		return err
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
		open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		opened, err := open(ctx, desc, conn, method, opts...)
		return &heard{opened, method, w}, err
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

// heard is a stream of a heard connection.
type heard struct {
	grpc.ClientStream

	method   string
	watchdog *Watchdog
}

// RecvMsg implements grpc.ClientStream.
func (h *heard) RecvMsg(m any) error {
	err := h.ClientStream.RecvMsg(m)
	h.watchdog.hear(h.method, m, err)
	return err
}

// hear takes an answer.
func (w *Watchdog) hear(method string, answer any, err error) {
	method = path.Base(method)
	if err != nil {
		if which, found := w.Secrets.In([]byte(err.Error())); found && !errors.Is(err, io.EOF) {
			w.breaks(Credentials, "%s: credentials of a call%s are in its error", method, which)
		}
		return
	}
	m, ok := answer.(proto.Message)
	if !ok {
		return
	}
	kind := fmt.Sprintf("%T", m)
	if said, ok := m.(*deployerv1.PluginMessage); ok {
		kind = fmt.Sprintf("%T", said.GetContent())
	}
	text, _ := proto.Marshal(m) // it was received
	if which, found := w.Secrets.In(text); found {
		w.breaks(Credentials, "%s: credentials of a call%s are in a message: %s", method, which, kind)
	}
	w.findPanics(method, m.ProtoReflect())
}

// judge takes the answer to a question.
func (w *Watchdog) judge(method string, answer any) {
	var flaws []string
	if failing, ok := answer.(interface{ GetFailed() *deployerv1.Failed }); ok {
		flaws = hostside.FlawsOfFailed(failing.GetFailed())
	}
	if finding, ok := answer.(interface{ GetProblems() []*deployerv1.Problem }); ok {
		flaws = append(flaws, hostside.FlawsOfProblems(finding.GetProblems())...)
	}
	for _, flaw := range flaws {
		w.breaks(Result, "%s: %s", path.Base(method), flaw)
	}
}

// findPanics looks for errors about a panic, as the sdk reports it, at any depth.
func (w *Watchdog) findPanics(method string, m protoreflect.Message) {
	if e, ok := m.Interface().(*deployerv1.Error); ok && e.GetReason() == sdk.ReasonPanic {
		w.breaks(Panics, "%s: %.300s", method, e.GetMessage())
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap():
		case field.IsList():
			for i := range value.List().Len() {
				w.findPanics(method, value.List().Get(i).Message())
			}
		default:
			w.findPanics(method, value.Message())
		}
		return true
	})
}

// Log returns a writer. It passes a log on to another one, and looks for credentials in it.
func (w *Watchdog) Log(to io.Writer) io.Writer { return &log{to: to, watchdog: w} }

type log struct {
	to       io.Writer // may be nil
	watchdog *Watchdog
	mu       sync.Mutex
	tail     []byte
}

// maxTail bounds the kept part of a log, for a secret at the border of two writes.
const maxTail = 4 << 10

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	text := slices.Concat(l.tail, p)
	if which, found := l.watchdog.Secrets.In(text); found {
		l.watchdog.breaks(Credentials, "credentials of a call%s are in the log", which)
		text = nil
	}
	l.tail = append([]byte{}, text[max(len(text)-maxTail, 0):]...)
	l.mu.Unlock()
	if l.to == nil {
		return len(p), nil
	}
	return l.to.Write(p)
}
