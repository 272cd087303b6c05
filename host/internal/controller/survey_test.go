package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	finished  = `{"jobID":"1","jobIDFinished":"1","phase":"Succeeded"}`
	newJob    = `{"jobID":"2","jobIDFinished":"1","phase":"Succeeded"}`
	smallPage = 3 // so that a few items have several pages
)

// surveyed is a survey of a real API server; it sees the items of other tests, too.
type surveyed struct {
	*survey
	listed []client.ListOptions
	read   []string // the names of the items that were read one by one
	logged bytes.Buffer
}

// pager is called instead of each list, with a function that lists a page; n counts them.
type pager func(n int, page *v1alpha1.DeployItemList, do func() error) error

func listPage(_ int, _ *v1alpha1.DeployItemList, do func() error) error { return do() }

// newSurvey returns a survey for a router.
func (a *api) newSurvey(r *router, pager pager) *surveyed {
	s := &surveyed{}
	live := interceptor.NewClient(a.admin, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(opts)
			s.listed = append(s.listed, *asked)
			asked.Limit = smallPage
			page, _ := list.(*v1alpha1.DeployItemList)
			return pager(len(s.listed), page, func() error { return c.List(ctx, list, asked) })
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			s.read = append(s.read, key.Name)
			return c.Get(ctx, key, obj, opts...)
		},
	})
	s.survey = &survey{
		live: live, cache: a.admin, router: r, clock: clocktesting.NewFakePassiveClock(time.Now()),
		log: slog.New(slog.NewTextHandler(&s.logged, nil)),
	}
	return s
}

func annotated(key, value string) func(*v1alpha1.DeployItem) {
	return func(item *v1alpha1.DeployItem) { item.Annotations = map[string]string{key: value} }
}

func TestSurvey(t *testing.T) {
	silent := func(item *v1alpha1.DeployItem) { item.Annotations = nil }
	asks := func(operation string) func(*v1alpha1.DeployItem) {
		return func(item *v1alpha1.DeployItem) { item.Annotations[v1alpha1.OperationAnnotation] = operation }
	}
	cases := map[string]struct {
		reason      string
		status      string
		modify      func(*v1alpha1.DeployItem)
		idle, typed bool // what is remembered
		read        bool // by a look afterwards
	}{
		"finished":  {reason: "there is nothing to do", status: finished, idle: true},
		"never-set": {reason: "nobody has set a job so far", idle: true},
		"new-job":   {reason: "there is a job", status: newJob, read: true},
		"asks":      {reason: "an operation is to begin", status: finished, modify: asks(v1alpha1.OperationReconcile), read: true},
		"asks-for-something-unknown": {
			reason: "somebody is to be told that there is no such operation", status: finished, modify: asks("dance"), read: true,
		},
		"silent": {reason: "its metadata does not tell its type", status: finished, modify: silent, idle: true, typed: true},
		"silent-with-a-job": {
			reason: "its type is known, its job is to be carried out", status: newJob, modify: silent, typed: true, read: true,
		},
		"lying": {
			reason: "its metadata tells another type", status: finished,
			modify: annotated(v1alpha1.DeployerTypeAnnotation, "test.pergola.dev/another"), idle: true, typed: true,
		},
		"foreign-with-a-job": {
			reason: "nobody serves its type", status: newJob,
			modify: func(item *v1alpha1.DeployItem) {
				item.Spec.Type, item.Annotations[v1alpha1.DeployerTypeAnnotation] = "test.pergola.dev/foreign", "test.pergola.dev/foreign"
			},
		},
	}
	b := newBenchOn(t, newServerAPI(t), succeeds)
	namespace := b.item.Namespace
	for name, c := range cases {
		b.newItemAs(namespace, name, c.status, func(item *v1alpha1.DeployItem) {
			if c.modify != nil {
				c.modify(item)
			}
		})
	}
	s := b.newSurvey(b.router, listPage)
	b.live = s.live
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.read) != 0 {
		t.Errorf("items were read one by one: %s", s.read)
	}
	for name, c := range cases {
		key := client.ObjectKey{Namespace: namespace, Name: name}
		_, idle := b.memory.entries[key]
		if _, typed := b.router.types[key]; idle != c.idle || typed != c.typed {
			t.Errorf("%s: %s: expected idle=%t and typed=%t, but found %t and %t", name, c.reason, c.idle, c.typed, idle, typed)
		}
		s.read = nil
		if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Errorf("%s: %s", name, err)
		}
		if read := len(s.read) > 0; read != c.read {
			t.Errorf("%s: %s: expected read=%t, but found %t", name, c.reason, c.read, read)
		}
	}
	for i, options := range s.listed {
		if first := options.Continue == ""; options.Limit != surveyPage || first != (i == 0) || options.Raw != nil {
			t.Errorf("list %d: expected pages of %d of the newest items, but found %+v", i+1, surveyPage, options)
		}
	}
	if len(s.listed) < len(cases)/smallPage {
		t.Errorf("expected several pages, but found %d", len(s.listed))
	}
}

func TestSurveyThatFails(t *testing.T) {
	down := errors.New("down")
	expired := apierrors.NewResourceExpired("the continue token is too old")
	cases := map[string]struct {
		reason string
		errs   map[int]error // by the number of the list
		// lists is how often something is listed; zero if that depends on the number of items.
		lists  int
		idle   bool
		warned bool
	}{
		"down": {reason: "the items are read one by one then", errs: map[int]error{1: down}, lists: 1, warned: true},
		"down in between": {
			reason: "what was remembered of the first page may be there", errs: map[int]error{2: down}, lists: 2, warned: true,
		},
		"expired once": {reason: "the list begins again", errs: map[int]error{2: expired}, idle: true},
		"expired twice": {
			reason: "it does not begin again for ever", errs: map[int]error{2: expired, 4: expired}, lists: 4, warned: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, r := newServerAPI(t), newRouted(t, true)
			r.plugins = &fakePlugins{serving: []*fakeDeployer{{name: "one", itemType: testType}}}
			namespace := a.newLastNamespace()
			for i := range 2 * smallPage {
				a.newItemAs(namespace, fmt.Sprint("item-", i), finished)
			}
			last := client.ObjectKey{Namespace: namespace, Name: fmt.Sprint("item-", 2*smallPage-1)}
			s := a.newSurvey(r.router, func(n int, _ *v1alpha1.DeployItemList, do func() error) error {
				if err := c.errs[n]; err != nil {
					return err
				}
				return do()
			})
			r.hold()
			if err := s.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.lists > 0 && len(s.listed) != c.lists {
				t.Errorf("%s: expected %d lists, but found %d", c.reason, c.lists, len(s.listed))
			}
			if c.idle {
				if _, idle := r.memory.entries[last]; !idle {
					t.Errorf("%s, but the last item was not remembered", c.reason)
				}
				if s.listed[2].Continue != "" {
					t.Errorf("%s, but the next page was asked for", c.reason)
				}
			}
			if warned := strings.Contains(s.logged.String(), "level=WARN"); warned != c.warned {
				t.Errorf("%s: expected warned=%t, but found %s", c.reason, c.warned, &s.logged)
			}
			if r.isHeld() || r.one.Len() < 2*smallPage {
				t.Errorf("%s, but %d items are in the queue and held=%t", c.reason, r.one.Len(), r.isHeld())
			}
		})
	}
}

func TestSurveyEndsWithTheHost(t *testing.T) {
	a, r := newFakeAPI(t), newRouted(t, true)
	ctx, stop := context.WithCancel(t.Context())
	s := a.newSurvey(r.router, func(_ int, _ *v1alpha1.DeployItemList, do func() error) error {
		stop()
		return do()
	})
	r.hold()
	if err := s.run(ctx); err != nil || !r.isHeld() || s.logged.Len() > 0 {
		t.Errorf("a survey that was stopped ended with %v, held=%t: %s", err, r.isHeld(), &s.logged)
	}
}

func TestSurveyForgetsWhatIsGone(t *testing.T) {
	a, r := newFakeAPI(t), newRouted(t, true)
	namespace := a.newNamespace()
	gone := a.newItemAs(namespace, "gone", finished, func(item *v1alpha1.DeployItem) { item.Annotations = nil })
	there := a.newItemAs(namespace, "there", finished)
	s := a.newSurvey(r.router, func(_ int, page *v1alpha1.DeployItemList, do func() error) error {
		err := do()
		if slices.ContainsFunc(page.Items, func(item v1alpha1.DeployItem) bool { return item.UID == gone.UID }) {
			a.remove(gone)
		}
		return err
	})
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, idle := r.memory.entries[keyOf(gone)]
	if _, typed := r.types[keyOf(gone)]; idle || typed {
		t.Errorf("an item that is gone since it was listed is remembered: idle=%t, typed=%t", idle, typed)
	}
	if _, ok := r.memory.entries[keyOf(there)]; !ok {
		t.Error("an item that is there was forgotten")
	}
}

func TestRememberSurveyed(t *testing.T) {
	listed := itemAt("uid", "5")
	cases := map[string]struct {
		reason string
		known  func(*memory)
		want   entry
	}{
		"unknown": {reason: "nobody has looked at it", known: func(*memory) {}, want: entry{uid: "uid", version: "5"}},
		"newer": {
			reason: "it was read after it was listed",
			known:  func(m *memory) { m.idle(entry{item: itemAt("uid", "7")}) }, want: entry{uid: "uid", version: "7"},
		},
		"reported": {
			reason: "what was reported is not to be reported again",
			known:  func(m *memory) { m.idle(entry{item: listed, reported: "dance"}) }, want: entry{uid: "uid", version: "5", reported: "dance"},
		},
		"under way": {
			reason: "a worker is busy with it",
			known:  func(m *memory) { m.begin(entry{item: listed}, "one") },
			want:   entry{uid: "uid", version: "5", item: listed, pluginName: "one", contextName: v1alpha1.DefaultContextName},
		},
		"recreated": {
			reason: "the one that was listed is gone",
			known:  func(m *memory) { m.idle(entry{item: itemAt("another", "7")}) }, want: entry{uid: "another", version: "7"},
		},
	}
	for name, c := range cases {
		m := newMemory()
		c.known(m)
		m.surveyed(listed)
		if diff := cmp.Diff(c.want, *m.entries[keyOf(listed)], cmp.AllowUnexported(entry{})); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, c.reason, diff)
		}
	}
}

// witness remembers what it is told of a survey.
type witness struct {
	told  map[client.ObjectKey]int
	ended int
	err   error // of each item
}

func (w *witness) Surveyed(_ context.Context, item *v1alpha1.DeployItem) error {
	w.told[keyOf(item)]++
	return w.err
}

func (w *witness) SurveyEnded(context.Context) error {
	w.ended++
	return nil
}

func TestSurveyHasAWitness(t *testing.T) {
	down := errors.New("down")
	cases := map[string]struct {
		reason  string
		err     error         // of the witness
		listErr map[int]error // by the number of the list
		stop    bool          // the host during the survey
		told    int
		ended   int
	}{
		"complete":      {reason: "all items are told of once", told: 1, ended: 1},
		"expired":       {reason: "the list begins again", listErr: map[int]error{2: apierrors.NewResourceExpired("old")}, told: 1, ended: 1},
		"failed":        {reason: "the witness reads the items by itself then", listErr: map[int]error{1: down}, ended: 1},
		"witness fails": {reason: "there is no use in going on", err: down, ended: 1},
		"stopped":       {reason: "the host ends", stop: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, r := newServerAPI(t), newRouted(t, true)
			namespace := a.newLastNamespace()
			for i := range 2 * smallPage {
				a.newItemAs(namespace, fmt.Sprint("item-", i), []string{finished, newJob}[i%2])
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s := a.newSurvey(r.router, func(n int, _ *v1alpha1.DeployItemList, do func() error) error {
				if c.stop {
					stop()
				}
				if err := c.listErr[n]; err != nil {
					return err
				}
				return do()
			})
			w := &witness{told: map[client.ObjectKey]int{}, err: c.err}
			s.witness = w
			if err := s.run(ctx); err != nil {
				t.Fatal(err)
			}
			for i := range 2 * smallPage {
				if told := w.told[client.ObjectKey{Namespace: namespace, Name: fmt.Sprint("item-", i)}]; told != c.told {
					t.Errorf("%s: expected item %d to be told of %d times, but found %d", c.reason, i, c.told, told)
				}
			}
			if w.ended != c.ended {
				t.Errorf("%s: expected ended=%d, but found %d", c.reason, c.ended, w.ended)
			}
		})
	}
}
