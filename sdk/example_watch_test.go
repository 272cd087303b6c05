package sdk_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// orders is a deployer for an API whose orders take hours. It keeps no credentials.
type orders struct{ fake }

// Watch wakes the items whose orders are done. It looks once for each account, that is for each Target.
func (o orders) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		items, err := req.Items(ctx)
		if err != nil {
			return err
		}
		accounts := map[[2]string][]sdk.WatchedItem{}
		for _, item := range items {
			account := [2]string{item.Namespace, item.Target}
			accounts[account] = append(accounts[account], item)
		}
		for _, items := range accounts {
			o.look(ctx, req, items)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look wakes the items of an account. After an error, such as of an item that is done meanwhile, it leaves them to the
// next look, or to a poll of the host.
func (orders) look(ctx context.Context, req *sdk.WatchRequest, items []sdk.WatchedItem) {
	call, err := req.Request(ctx, items[0].Namespace, items[0].Name)
	if err != nil {
		return
	}
	done, err := doneOrders(ctx, call.Target)
	if err != nil {
		call.Log.Warn("the orders are not known", "error", err.Error())
		return
	}
	for _, item := range items {
		if done[item.Name] {
			req.Wake(item.Namespace, item.Name)
		}
	}
}

// doneOrders asks the API. The Target's content is its address; a real one has a token, too.
func doneOrders(ctx context.Context, target *sdk.Target) (map[string]bool, error) {
	in, err := http.NewRequestWithContext(ctx, http.MethodGet, string(target.Content), http.NoBody)
	if err != nil {
		return nil, err
	}
	out, err := http.DefaultClient.Do(in)
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	name, err := io.ReadAll(out.Body)
	return map[string]bool{string(name): true}, err
}

// A watch of an API without credentials of its own: it asks for those of an item when it looks.
func ExampleWatchRequest() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "item-1")
	}))
	defer api.Close()
	calls := watchedCalls(3)
	for i := range calls {
		calls[i].Target = &sdk.Target{Name: "account", Content: []byte(api.URL)}
	}

	// What follows stands for the host.
	ctx, end := context.WithCancel(context.Background())
	defer end()
	address, _, err := sdk.ServeInProcess(ctx, slog.New(slog.DiscardHandler), orders{}, options()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	plugin, err := conformance.Attach(ctx, "unix:"+address.String(), conformance.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer plugin.Close()
	err = plugin.WatchItems(ctx, func() []conformance.Call { return calls }, func(namespace, name string) {
		fmt.Println("woken:", namespace+"/"+name)
		end()
	})
	fmt.Println("error:", err)
	// Output:
	// woken: default/item-1
	// error: <nil>
}
