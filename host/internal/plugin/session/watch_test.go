package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// watched is a Watch with many items, and with a call for those named known.
type watched struct {
	items []sdk.WatchedItem
	asked []string
	woken []string
}

func (w *watched) Wake(_ context.Context, namespace, name string) error {
	w.woken = append(w.woken, namespace+"/"+name)
	return nil
}

func (w *watched) Items(context.Context) ([]sdk.WatchedItem, error) { return w.items, nil }

func (w *watched) CallFor(_ context.Context, item types.NamespacedName) (Call, error) {
	w.asked = append(w.asked, item.Name)
	if item.Name == "known" {
		return fullCall(), nil
	}
	return Call{}, hostside.Error{Reason: "Why", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Message: "not there"}
}

// A plugin may ask as much as it likes: each question is answered after the one before, and lists come in parts.
func TestWatchItems(t *testing.T) {
	t.Parallel()
	const questions = 40
	var answered []uint64
	items, problem := 0, &deployerv1.Error{}
	talk := func(stream watchWire) error {
		for i := range uint64(questions) {
			name := map[bool]string{true: "known", false: "unknown"}[i%2 == 0]
			if err := stream.Send(&deployerv1.WatchPluginMessage{Content: &deployerv1.WatchPluginMessage_RequestItem{
				RequestItem: &deployerv1.RequestItem{Sequence: i + 1, Namespace: "default", Name: name},
			}}); err != nil {
				return err
			}
		}
		if err := stream.Send(&deployerv1.WatchPluginMessage{Content: &deployerv1.WatchPluginMessage_ListItems{
			ListItems: &deployerv1.ListItems{Sequence: questions + 1},
		}}); err != nil {
			return err
		}
		for range questions {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			in := m.GetRequestedItem()
			answered = append(answered, in.GetSequence())
			if (in.GetStart() == nil) == (in.GetError() == nil) {
				t.Errorf("expected the input or an error, but found %v", in)
			}
			if in.GetError() != nil {
				problem = in.GetError()
			} else if len(in.GetStart().GetTarget()) == 0 || in.GetStart().GetResolvesTargets() {
				t.Errorf("expected the Target, and no answers to questions, but found %v", in.GetStart())
			}
		}
		for more := true; more; {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			more, items = m.GetWatchedItems().GetMore(), items+len(m.GetWatchedItems().GetItems())
		}
		return stream.Send(&deployerv1.WatchPluginMessage{Content: &deployerv1.WatchPluginMessage_WakeUp{
			WakeUp: &deployerv1.WatchResponse{Namespace: "default", Name: "item"},
		}})
	}
	w := &watched{}
	for i := range 25_000 {
		w.items = append(w.items, sdk.WatchedItem{Namespace: "default", Name: fmt.Sprintf("item-%d", i), Target: "t"})
	}
	err := connect(t, &peer{watch: talk}).WatchItems(t.Context(), w)
	if err == nil || err.Error() != "it ended the stream" {
		t.Errorf("expected the end of the stream, but found: %v", err)
	}
	if len(answered) != questions || answered[0] != 1 || answered[questions-1] != questions || len(w.asked) != questions {
		t.Errorf("expected an answer to each question in turn, but found %v", answered)
	}
	if problem.GetReason() != "Why" || problem.GetCodes()[0] != "ERR_NO_RETRY" || problem.GetMessage() != "not there" {
		t.Errorf("unexpected error of an answer: %v", problem)
	}
	if diff := cmp.Diff([]string{"default/item"}, w.woken); diff != "" || items != len(w.items) {
		t.Errorf("found %d items, woken (-want +got):\n%s", items, diff)
	}
}

// The answers stop with the host.
func TestWatchItemsEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := connect(t, &peer{watch: func(stream watchWire) error {
		cancel()
		<-stream.Context().Done()
		return nil
	}}).WatchItems(ctx, &watched{})
	if err == nil || errors.Is(err, ErrProtocol) {
		t.Errorf("expected the end of the context, but found: %v", err)
	}
}
