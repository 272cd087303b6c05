package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// remote is an API whose orders take their time. It accepts one token.
type remote struct {
	mu      sync.Mutex
	token   string
	ordered map[string]bool // by name; true once it is done
	refused int
}

func (r *remote) change(change func(*remote)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// ServeHTTP takes an order for the name in the path, or says whether that is done.
func (r *remote) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done, known := r.ordered[in.URL.Path]
	switch {
	case in.Header.Get("Authorization") != r.token:
		r.refused++
		w.WriteHeader(http.StatusUnauthorized)
	case !known:
		r.ordered[in.URL.Path] = false
		fallthrough
	case !done:
		w.WriteHeader(http.StatusAccepted)
	}
}

// orderer is a deployer of orders. It keeps no credentials: its watch asks for them.
type orderer struct{}

type account struct{ URL, Token string }

func order(ctx context.Context, req *sdk.Request) (done bool, err error) {
	var a account
	if err := json.Unmarshal(req.Target.Content, &a); err != nil {
		return false, errors.New("the Target is no account")
	}
	in, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+"/"+req.DeployItem.Name, http.NoBody)
	if err != nil {
		return false, err
	}
	in.Header.Set("Authorization", a.Token)
	out, err := http.DefaultClient.Do(in)
	if err != nil {
		return false, err
	}
	if err := out.Body.Close(); err != nil || out.StatusCode >= http.StatusBadRequest {
		return false, errors.Join(err, fmt.Errorf("the API answers %s", out.Status))
	}
	return out.StatusCode == http.StatusOK, nil
}

func (orderer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if done, err := order(ctx, req); done || err != nil {
		return nil, err
	}
	return sdk.WaitFor("the order", 24*time.Hour), nil
}

func (orderer) Delete(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }

func (orderer) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	for ctx.Err() == nil {
		items, err := req.Items(ctx)
		if err != nil {
			return err
		}
		for _, item := range items {
			call, err := req.Request(ctx, item.Namespace, item.Name)
			if err != nil { // it is done meanwhile
				continue
			}
			if done, err := order(ctx, call); done && err == nil {
				req.Wake(item.Namespace, item.Name)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// TestWatchOfARemoteAPI: a watch that keeps no credentials has the job of an item go on, also after these have changed.
func TestWatchOfARemoteAPI(t *testing.T) {
	a, itemType := newServerAPI(t), newType()
	r := &remote{token: "first", ordered: map[string]bool{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)

	log := slog.New(slog.DiscardHandler)
	address, _, err := sdk.ServeInProcess(t.Context(), log, orderer{}, sdk.Name("orderer"), sdk.Types(itemType))
	if err != nil {
		t.Fatal(err)
	}
	listener := &struct{ *Controller }{}
	set, err := plugin.Open(plugin.Options{
		Attach: []string{"unix://" + address.String()}, Log: log,
		StartTimeout: patience, StopGrace: time.Second, Silence: patience,
	}, listener)
	if err != nil {
		t.Fatal(err)
	}
	listener.Controller = a.startController(intake.PluginSet{Set: set})
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- set.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	content := func(token string) string {
		return fmt.Sprintf(`{"url":%q,"token":%q}`, server.URL, token)
	}
	namespace := a.newNamespace()
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "account"},
		Spec:       v1alpha1.TargetSpec{Type: "example.org/account", Configuration: raw(content("first"))},
	}
	a.create(target)
	item := newDeployItem(namespace, "item", withTargetNamed("account"), func(i *v1alpha1.DeployItem) {
		i.Spec.Type, i.Annotations[v1alpha1.DeployerTypeAnnotation] = itemType, string(itemType)
	})
	a.create(item)
	job := a.setJob(item, time.Now())
	a.waitFor(item, "that waits for its order", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing
	})

	r.change(func(r *remote) { r.token = "second" })
	target.Spec.Configuration = raw(content("second"))
	if err := a.admin.Patch(t.Context(), target, client.Merge); err != nil {
		t.Fatal(err)
	}
	r.change(func(r *remote) { r.ordered["/item"] = true })
	a.waitFor(item, "whose order is done", func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobIDFinished == job && i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded
	})
}
