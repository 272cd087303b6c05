package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxContents bounds the bytes of the items that are kept in full. Others are read again.
const maxContents = 64 << 20

// contents are the items with work, in full, so that a reconcile need not read them: items that have arrived by the
// list or the watch, and items as this replica has written them.
type contents struct {
	mu    sync.Mutex
	items map[types.NamespacedName]content
	size  int // in bytes
}

// content is an item in full. It belongs to the worker that takes it.
type content struct {
	item *v1alpha1.DeployItem
	// own: this replica has read or written the item under its lock.
	own bool
}

// size is about the number of bytes of an item in memory.
func (c content) size() int {
	const rest = 4 << 10
	size := rest
	if c.item.Spec.Config != nil {
		size += len(c.item.Spec.Config.Raw)
	}
	if c.item.Status.ProviderStatus != nil {
		size += len(c.item.Status.ProviderStatus.Raw)
	}
	return size
}

func newContents() *contents { return &contents{items: map[types.NamespacedName]content{}} }

// put keeps an item, unless a newer version is there or there is no room.
func (c *contents) put(item *v1alpha1.DeployItem, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, added := keyOf(item), content{item: item, own: own}
	if before, ok := c.items[key]; ok {
		if before.item.UID == item.UID && !contract.Newer(item.ResourceVersion, before.item.ResourceVersion) &&
			(!own || before.item.ResourceVersion != item.ResourceVersion) {
			return
		}
		c.remove(key)
	}
	if size := added.size(); c.size+size <= maxContents {
		c.items[key] = added
		c.size += size
	}
}

// take hands over an item if it is at least as new as a version.
func (c *contents) take(key types.NamespacedName, uid types.UID, version string) (content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.items[key]
	if !ok || found.item.UID != uid || contract.Newer(version, found.item.ResourceVersion) {
		return content{}, false
	}
	c.remove(key)
	return found, true
}

// drop drops an item that has no work any more.
func (c *contents) drop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

func (c *contents) remove(key types.NamespacedName) {
	if dropped, ok := c.items[key]; ok {
		c.size -= dropped.size()
		delete(c.items, key)
	}
}
