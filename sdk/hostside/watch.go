package hostside

import (
	"slices"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
)

// maxWatchedItems bounds the items in a message: they have about 100 bytes each.
const maxWatchedItems = 10_000

// ReasonItemNotWatched is the reason of the answer about an item outside of the watch.
const ReasonItemNotWatched = "ItemNotWatched"

// WatchedItems answers a question for the items of a watch, in one message or more.
func WatchedItems(sequence uint64, items []sdk.WatchedItem) (messages []*deployerv1.WatchHostMessage) {
	add := func(items []sdk.WatchedItem, more bool) {
		messages = append(messages, &deployerv1.WatchHostMessage{Content: &deployerv1.WatchHostMessage_WatchedItems{
			WatchedItems: &deployerv1.WatchedItems{
				Sequence: sequence, More: more,
				Items: wire.Each(items, func(i sdk.WatchedItem) *deployerv1.WatchedItem {
					return &deployerv1.WatchedItem{Namespace: i.Namespace, Name: i.Name, Target: i.Target}
				}),
			},
		}})
	}
	for chunk := range slices.Chunk(items, maxWatchedItems) {
		add(chunk, true)
	}
	add(nil, false)
	return messages
}

// RequestedItem answers a question for the input of a call, or with why there is none.
func RequestedItem(sequence uint64, start *deployerv1.Start, problem *Error) *deployerv1.WatchHostMessage {
	return &deployerv1.WatchHostMessage{Content: &deployerv1.WatchHostMessage_RequestedItem{
		RequestedItem: &deployerv1.RequestedItem{Sequence: sequence, Start: start, Error: problem.toWire()},
	}}
}
