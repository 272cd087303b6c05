package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// What a worker may send, beside what the limits of its request allow.
const (
	// objectCost is what an object costs beside its content, so that a list of nothings is not free.
	objectCost = 64
	// slackBytes is for what objects have in JSON and not as they were rendered.
	slackBytes = 4 << 20
	// talkCost is what each word about progress costs beside its content, maxTalk how long one may be, and talkBytes all of them.
	talkCost  = 64
	maxTalk   = 16 << 10
	talkBytes = 32 << 20
	// maxError bounds an error as it is sent. What is kept of it is less.
	maxError = 1 << 20
	// maxEvents is how many events a hook has.
	maxEvents = 32
)

// What is kept of texts.
const (
	maxMessage  = 16 << 10
	maxTemplate = 1 << 10
	maxLogLine  = 2 << 10
	maxLogLines = 50
	maxName     = 1 << 10
	maxKept     = 64 << 10
)

// stepName is what the step of a progress looks like.
var stepName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// event is what a worker has said: one of the following.
type event interface{ isEvent() }

type (
	// helloEvent is the first one.
	helloEvent struct{}
	// renderedEvent asks which objects are to be created instead.
	renderedEvent struct{ objects []helm.Object }
	progressEvent progress
	logEvent      struct{ line string }
	// doneEvent is the last one: a result, an error, or neither if the worker was told to stop.
	doneEvent struct {
		result *helm.Result
		err    *helm.Error
	}
)

func (helloEvent) isEvent()    {}
func (renderedEvent) isEvent() {}
func (progressEvent) isEvent() {}
func (logEvent) isEvent()      {}
func (doneEvent) isEvent()     {}

// receiver reads what a worker sends. It neither takes more memory than a few times what the limits of the request allow, nor believes anything.
type receiver struct {
	from io.Reader
	req  *helm.Request

	greeted, rendered, done bool
	// left is how many bytes of objects may come, talk how many of progress and logs.
	left, talk int64

	objects, definitions []helm.Object
	hooks                []helm.Hook
}

func newReceiver(from io.Reader, req *helm.Request) *receiver {
	r := &receiver{from: from, req: req, talk: talkBytes}
	r.left = r.allowance()
	return r
}

// allowance is how many bytes of objects and values there can be at most, at once.
func (r *receiver) allowance() int64 {
	return 2*r.req.Limits.RenderedBytes + r.req.Limits.UnpackedBytes + 2*int64(len(r.req.Values)) + slackBytes
}

// next returns the next event. After a doneEvent it is not called again. The error is errNonsense or errTooMuch if the worker is to blame,
// and that of reading otherwise.
func (r *receiver) next() (event, error) {
	for {
		k, content, err := readMessage(r.from, r.admit)
		if errors.Is(err, errTooMuch) && (k == kindProgress || k == kindLog || k == kindError) { // which no chart makes it say
			err = fmt.Errorf("%w: message %q is too long, or one too many", errNonsense, k)
		}
		if err != nil {
			return nil, err
		}
		event, err := r.receive(k, content)
		if err != nil {
			return nil, fmt.Errorf("%w: message %q", err, k)
		}
		if event != nil {
			return event, nil
		}
	}
}

// admit tells which messages may come now, and how long they may be.
func (r *receiver) admit(k kind) (int64, error) {
	if r.done || r.greeted == (k == kindHello) {
		return 0, errNonsense
	}
	switch k {
	case kindHello, kindCancelled:
		return 0, nil
	case kindRendered:
		if r.rendered || r.req.Action == helm.Values || r.req.Action == helm.Uninstall {
			return 0, errNonsense
		}
		return 0, nil
	case kindObject, kindDefinition, kindHook, kindResult:
		return r.left, nil
	case kindProgress, kindLog:
		return min(r.talk, maxTalk), nil
	case kindError:
		return maxError, nil
	default:
		return 0, errNonsense
	}
}

// receive takes a message that was admitted. It returns nil for a part of an event.
func (r *receiver) receive(k kind, content []byte) (event, error) {
	switch k {
	case kindHello:
		r.greeted = true
		return helloEvent{}, nil
	case kindObject, kindDefinition, kindHook:
		return nil, r.collect(k, content)
	case kindRendered:
		if r.definitions != nil || r.hooks != nil {
			return nil, errNonsense
		}
		event := renderedEvent{r.objects}
		r.rendered, r.objects, r.left = true, nil, r.allowance()
		return event, nil
	case kindProgress, kindLog:
		r.talk -= int64(len(content)) + talkCost
		return receiveTalk(k, content)
	case kindResult:
		r.done = true
		result, err := r.result(content)
		return doneEvent{result: result}, err
	case kindError:
		r.done = true
		found, err := receiveError(content)
		return doneEvent{err: found}, err
	case kindCancelled:
		r.done = true
		return doneEvent{}, nil
	default:
		return nil, errNonsense
	}
}

// collect takes an object of a list.
func (r *receiver) collect(k kind, content []byte) error {
	if r.left -= int64(len(content)) + objectCost; r.left < 0 {
		return errTooMuch
	}
	var hook helm.Hook // which is an object and more
	if json.Unmarshal(content, &hook) != nil || !isObject(hook.JSON) || len(hook.Source) > maxTemplate || len(hook.Events) > maxEvents {
		return errNonsense
	}
	switch {
	case k == kindHook:
		r.hooks = append(r.hooks, hook)
	case hook.Events != nil:
		return errNonsense
	case k == kindDefinition:
		r.definitions = append(r.definitions, hook.Object)
	default:
		r.objects = append(r.objects, hook.Object)
	}
	return nil
}

// receiveTalk returns nil for what is empty.
func receiveTalk(k kind, content []byte) (event, error) {
	if k == kindLog {
		var line string
		if json.Unmarshal(content, &line) != nil {
			return nil, errNonsense
		}
		if line = shorten(clean(line), maxLogLine); line == "" {
			return nil, nil //nolint:nilnil // there is nothing to tell
		}
		return logEvent{line}, nil
	}
	var p progress
	if json.Unmarshal(content, &p) != nil || !stepName.MatchString(p.Step) {
		return nil, errNonsense
	}
	return progressEvent{p.Step, shorten(clean(p.Message), maxMessage)}, nil
}

// result puts a result together from its last message and the lists that have come before. The message has no lists.
func (r *receiver) result(content []byte) (*helm.Result, error) {
	var result helm.Result
	if json.Unmarshal(content, &result) != nil || result.Definitions != nil || result.Objects != nil || result.Hooks != nil {
		return nil, errNonsense
	}
	chart := result.Chart
	if result.Revision < 0 || max(len(chart.Name), len(chart.Version), len(chart.AppVersion)) > maxName {
		return nil, errNonsense
	}
	if (r.req.Action == helm.Values) != (result.Values != nil) || result.Values != nil && !isObject(result.Values) {
		return nil, errNonsense
	}
	result.Kept = shorten(cleanLines(result.Kept), maxKept)
	result.Definitions, result.Objects, result.Hooks = r.definitions, r.objects, r.hooks
	return &result, nil
}

// receiveError reads an error.
func receiveError(content []byte) (*helm.Error, error) {
	var e helm.Error
	if json.Unmarshal(content, &e) != nil || !knownKind(e.Kind) || e.Message == "" || e.Line < 0 {
		return nil, errNonsense
	}
	return bounded(&e), nil
}

// bounded returns what is kept of an error.
func bounded(e *helm.Error) *helm.Error {
	kept := *e
	kept.Message, kept.Template, kept.Log = shorten(cleanLines(e.Message), maxMessage), shorten(clean(e.Template), maxTemplate), nil
	for _, line := range e.Log[max(len(e.Log)-maxLogLines, 0):] {
		kept.Log = append(kept.Log, shorten(clean(line), maxLogLine))
	}
	return &kept
}

// knownKind tells whether there are errors of this kind.
func knownKind(k helm.Kind) bool {
	switch k {
	case helm.ChartInvalid, helm.ValuesInvalid, helm.RenderFailed, helm.LimitExceeded, helm.Rejected, helm.OwnedByOthers, helm.HookFailed,
		helm.Pending, helm.TimedOut, helm.Unauthorized, helm.Refused, helm.ClusterFailed, helm.Crashed:
		return true
	default:
		return false
	}
}

// cleanLines is clean for a text of several lines.
func cleanLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// shorten cuts a text that is longer than so many bytes, and marks that it did. It never makes half a character.
func shorten(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}
