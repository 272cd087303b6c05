package plugintest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Requests notes the requests of the code under test, as its steps, and can disturb them. The zero value is ready.
type Requests struct {
	mu sync.Mutex
	// all are the steps until now.
	all       []string
	onceAsked int

	// calls is the number of calls in progress. fenced: the only call must not change anything yet, and early are its
	// changes.
	calls  int
	fenced bool
	early  []string

	// answer may answer a request instead of the API server; lose may lose its answer.
	answer func(*http.Request) (*http.Response, error)
	lose   func(*http.Request) error

	// strikeAt is the number of the step for the strike, counted in steps open to the fault; 0 for never.
	strikeAt, steps int
	fault           Fault
	struck, dead    bool
}

// The steps other than requests.
const (
	// StepSave is the save of a provider status during a call, and StepResult the result of a call.
	StepSave   = "save"
	StepResult = "result"
)

// Fault is a failure at a step of the code under test: a request, such as "PATCH /path", with "dry " for a dry run
// and "WATCH" for a watch, the save of a provider status, or the result of a call.
type Fault struct {
	// Name for messages.
	Name string
	// Reads: it strikes only at a read, and otherwise only at a change.
	Reads bool
	// Path: it strikes only at steps that contain it.
	Path string
	// Done: the step takes effect all the same, and only its answer is lost.
	Done bool
	// Refused: the API server answers with ServiceUnavailable.
	Refused bool
	// Killed: the process ends with it, instead of an error. Its further steps have no effect.
	Killed bool
}

// canStrike reports whether the fault can strike at a step. Only a kill loses a result.
func (f Fault) canStrike(step string) bool {
	return IsRead(step) == f.Reads && strings.Contains(step, f.Path) && (step != StepResult || f.Killed)
}

// The faults. A kill after a step is the same as a kill before the next one.
var (
	Killed     = Fault{Name: "killed", Killed: true}
	Failed     = Fault{Name: "failed"}
	AnswerLost = Fault{Name: "answer lost", Done: true}
	Refused    = Fault{Name: "refused", Refused: true}
	ReadFailed = Fault{Name: "read failed", Reads: true}
)

// ErrStruck is the error of a step with a fault for the code under test.
var ErrStruck = errors.New("the test has cut the connection")

// IsWrite reports whether a step changes something on the API server.
func IsWrite(step string) bool {
	return step != StepSave && step != StepResult && !IsRead(step)
}

// IsRead reports whether a step only reads.
func IsRead(step string) bool {
	verb, _, _ := strings.Cut(step, " ")
	return verb == http.MethodGet || verb == "WATCH" || verb == "dry"
}

// RoundTripper is a function as an http.RoundTripper.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Wrap is for the transport of a client with the requests of the code under test. The questions a client asks once,
// for the kinds and for the identity of the cluster, are neither steps nor disturbed.
func (l *Requests) Wrap(next http.RoundTripper) http.RoundTripper {
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		if slices.Contains(askedOnce, r.URL.Path) {
			l.mu.Lock()
			l.onceAsked++
			l.mu.Unlock()
			return next.RoundTrip(r)
		}
		done, heard := l.step(stepOf(r))
		if !done {
			return l.refusal(r)
		}
		l.mu.Lock()
		answer, lose := l.answer, l.lose
		l.mu.Unlock()
		if answer != nil {
			if response, err := answer(r); response != nil || err != nil {
				return response, err
			}
		}
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if lose != nil {
			err = lose(r)
		}
		if !heard || l.isDead() {
			err = ErrStruck
		}
		if err != nil {
			_ = response.Body.Close() // its content is unused
			return nil, err
		}
		return response, nil
	})
}

var askedOnce = []string{"/api", "/apis", "/version", "/api/v1/namespaces/kube-system"}

// AskedOnce is the number of questions a client asks once.
func (l *Requests) AskedOnce() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.onceAsked
}

// refusal is the outcome of an unsent request.
func (l *Requests) refusal(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead || !l.fault.Refused {
		return nil, ErrStruck
	}
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

func stepOf(r *http.Request) string {
	switch {
	case r.URL.Query().Has("dryRun"):
		return "dry " + r.Method + " " + r.URL.Path
	case r.URL.Query().Get("watch") != "":
		return "WATCH " + r.URL.Path
	default:
		return r.Method + " " + r.URL.Path
	}
}

// step reports whether the next step takes effect, and whether the code under test hears of that.
func (l *Requests) step(name string) (done, heard bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return false, false
	}
	l.all = append(l.all, name)
	done, heard = l.disturbed(name)
	switch {
	case name == StepSave && heard:
		l.fenced = false
	case l.fenced && IsWrite(name):
		l.early = append(l.early, name)
	}
	return done, heard
}

// begin notes the start of a call. The returned function ends it and returns its early changes. Requests of
// simultaneous calls cannot be told apart.
func (l *Requests) begin(fenced bool) (end func() (early []string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.fenced, l.early = fenced && l.calls == 1, nil
	return func() []string {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls--
		l.fenced = false
		return l.early
	}
}

// disturbed is step without the promise of a fenced call. l.mu must be held.
func (l *Requests) disturbed(name string) (done, heard bool) {
	if l.strikeAt == 0 || !l.fault.canStrike(name) {
		return true, true
	}
	if l.steps++; l.steps != l.strikeAt {
		return true, true
	}
	l.struck, l.dead = true, l.fault.Killed
	return l.fault.Done, false
}

func (l *Requests) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Take returns the requests since its last call.
func (l *Requests) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return slices.DeleteFunc(all, func(step string) bool { return step == StepSave || step == StepResult })
}

// Steps returns the steps since the last Take.
func (l *Requests) Steps() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// Writes is Take with only the requests to change something on the API server.
func (l *Requests) Writes() []string {
	return slices.DeleteFunc(l.Take(), func(step string) bool { return !IsWrite(step) })
}

// Answer lets a function answer requests instead of the API server, unless it returns neither an answer nor an error.
func (l *Requests) Answer(answer func(*http.Request) (*http.Response, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

// Fail makes a request fail with the error of the function, if any. The request is not sent.
func (l *Requests) Fail(fail func(*http.Request) error) {
	l.Answer(func(r *http.Request) (*http.Response, error) { return nil, fail(r) })
}

// Lose replaces the answer to a request by the error of the function, if any.
func (l *Requests) Lose(lose func(*http.Request) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = lose
}

// Undisturbed ends Answer, Fail and Lose.
func (l *Requests) Undisturbed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer, l.lose = nil, nil
}

// Strike lets a fault strike at the nth of its possible steps from now on.
func (l *Requests) Strike(n int, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.strikeAt, l.fault, l.steps, l.struck, l.dead = n, f, 0, false, false
}

// hasStruck reports whether the fault of Strike has struck.
func (l *Requests) hasStruck() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.struck
}

// Revive ends Strike, and reports whether the fault has struck.
func (l *Requests) Revive() (struck bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	struck = l.struck
	l.strikeAt, l.struck, l.dead = 0, false, false
	return struck
}

// Verbs returns the steps since they were taken last as their methods, with "dry" for those that change nothing.
func (l *Requests) Verbs() []string {
	var verbs []string
	for _, request := range l.Take() {
		verb, _, _ := strings.Cut(request, " /")
		verbs = append(verbs, verb)
	}
	return verbs
}

// Forbidden is the answer of an API server to a request without permission.
func Forbidden(r *http.Request, message string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure",` +
			`"reason":"Forbidden","code":403,"message":"` + message + `"}`)),
	}
}

// NameIn returns the name of the object that a request creates; empty for other requests.
func NameIn(r *http.Request) string {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close() //nolint:errcheck // it is in memory
	var sent struct {
		Metadata struct{ Name string }
	}
	if json.NewDecoder(body).Decode(&sent) != nil {
		return ""
	}
	return sent.Metadata.Name
}
