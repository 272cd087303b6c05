package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

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

// surveyed is a survey of a fake API server, whose lists have pages.
type surveyed struct {
	*survey
	listed []client.ListOptions
	read   []string // the names of the items that were read one by one
	logged bytes.Buffer
	heard  map[string]int // by the name of the item, as the listener
	ended  int
}

// newSurvey returns a survey for a router. before is called before each list, of which n is the number.
func (a *api) newSurvey(r *router, before func(n int) error) *surveyed {
	s := &surveyed{heard: map[string]int{}}
	live := interceptor.NewClient(a.admin, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(opts)
			s.listed = append(s.listed, *asked)
			if err := errors.Join(before(len(s.listed)), c.List(ctx, list)); err != nil {
				return err
			}
			page, _ := list.(*v1alpha1.DeployItemList)
			from, _ := strconv.Atoi(asked.Continue)
			if next := from + smallPage; next < len(page.Items) {
				page.Items, page.Continue = page.Items[:next], strconv.Itoa(next)
			}
			page.Items = page.Items[from:]
			return nil
		},
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
		) error {
			s.read = append(s.read, key.Name)
			return c.Get(ctx, key, obj, opts...)
		},
	})
	s.survey = &survey{
		live: live, router: r, clock: clocktesting.NewFakePassiveClock(time.Now()),
		log: slog.New(slog.NewTextHandler(&s.logged, nil)), listener: s,
	}
	return s
}

func (s *surveyed) Surveyed(_ context.Context, item *v1alpha1.DeployItem) error {
	s.heard[item.Name]++
	return nil
}

func (s *surveyed) SurveyEnded(context.Context) error {
	s.ended++
	return nil
}

func noError(int) error { return nil }

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
		"asks": {
			reason: "an operation is to begin", status: finished, modify: asks(v1alpha1.OperationReconcile), read: true,
		},
		"asks-for-something-unknown": {
			reason: "somebody is to learn that there is no such operation", status: finished, modify: asks("dance"), read: true,
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
	b := newBench(t, succeeds)
	namespace := b.item.Namespace
	for name, c := range cases {
		b.newItemAs(namespace, name, c.status, func(item *v1alpha1.DeployItem) {
			if c.modify != nil {
				c.modify(item)
			}
		})
	}
	s := b.newSurvey(b.router, noError)
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
}

func TestSurveyThatFails(t *testing.T) {
	down := errors.New("down")
	expired := apierrors.NewResourceExpired("the continue token is too old")
	cases := map[string]struct {
		reason     string
		errs       map[int]error // by the number of the list
		stop       bool          // the host, during the first list
		lists      int
		heard      []int // how often the listener hears of the items of the first page, and of the second
		remembered bool  // the items of the second page
		ends       bool
	}{
		"not at all": {
			reason: "the listener hears of all items once", lists: 2, heard: []int{1, 1}, remembered: true, ends: true,
		},
		"down in between": {
			reason: "what was remembered of the first page may be there", errs: map[int]error{
				2: down,
			}, lists: 2, heard: []int{1, 0}, ends: true,
		},
		"expired twice": {
			reason: "it does not begin again for ever", errs: map[int]error{
				2: expired, 4: expired,
			}, lists: 4, heard: []int{2, 0}, ends: true,
		},
		"stopped": {reason: "the host ends", stop: true, lists: 1, heard: []int{0, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, r := newFakeAPI(t), newRouted(t, true)
			r.plugins = &fakePlugins{serving: []*fakeDeployer{{name: "one", itemType: testType}}}
			namespace := a.newNamespace()
			for i := range 2 * smallPage {
				a.newItemAs(namespace, fmt.Sprint("item-", i), finished)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s := a.newSurvey(r.router, func(n int) error {
				if c.stop {
					stop()
					return ctx.Err()
				}
				return c.errs[n]
			})
			if err := s.run(ctx); err != nil {
				t.Fatal(err)
			}
			last := fmt.Sprint("item-", 2*smallPage-1)
			_, remembered := r.memory.entries[client.ObjectKey{Namespace: namespace, Name: last}]
			if len(s.listed) != c.lists || remembered != c.remembered || s.heard["item-0"] != c.heard[0] ||
				s.heard[last] != c.heard[1] {
				t.Errorf("%s: found %d lists, the last item remembered: %t, heard %v", c.reason, len(s.listed), remembered, s.heard)
			}
			if warned := strings.Contains(s.logged.String(), "level=WARN"); warned != (c.ends && !c.remembered) {
				t.Errorf("%s: found %s", c.reason, &s.logged)
			}
			if (s.ended == 1) != c.ends {
				t.Errorf("%s, but the listener heard of the end %d times", c.reason, s.ended)
			}
		})
	}
}
