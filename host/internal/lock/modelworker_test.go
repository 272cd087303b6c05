package lock

import (
	"context"
	"errors"
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// memo is what a process remembers of an item that it has read or written: its content if a job is under way.
type memo struct {
	uid     types.UID
	version int
	item    *modelItem
}

var errOutdated = errors.New("the item has changed meanwhile")

// worker looks at one item, as package controller does: its steps are those of reconciler.Reconcile and job.run. It is a coroutine
// that goes on only when it is let, so that everything else can happen between its steps.
type worker struct {
	*process
	name  string
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	item modelItem // as it was read or written last
	lock *Lock
	// calling: the plugin is called, or what has come of it is being written. releasing: the lock is being given back.
	calling, releasing bool
}

// step goes on with an item, or begins if there is something to look at. It reports whether there was anything to do.
func (p *process) step(name string) bool {
	w := p.workers[name]
	if !p.active() || w == nil && !p.queue[name] {
		return false
	}
	if w == nil {
		w = &worker{process: p, name: name}
		w.next, w.stop = iter.Pull(w.work)
		p.workers[name] = w
		delete(p.queue, name)
	}
	p.running = w
	if _, more := w.next(); !more {
		delete(p.workers, name)
	}
	p.running = nil
	p.check()
	return true
}

func (w *worker) work(yield func(struct{}) bool) {
	w.yield = yield
	if err := w.look(); err != nil {
		w.queue[w.name] = true
	}
	w.calling = false
	w.unlock()
}

// wait lets anything else happen.
func (w *worker) wait() { w.yield(struct{}{}) }

func (w *worker) key(uid types.UID) Key {
	return Key{Plugin: modelPlugin, Item: types.NamespacedName{Namespace: modelNamespace, Name: w.name}, UID: uid}
}

func (w *worker) look() error {
	meta, there := w.cached[w.name]
	if !there {
		delete(w.memory, w.name)
		w.locker.Forget(modelPlugin, w.key("").Item)
		return nil
	}
	known := w.memory[w.name]
	current := known.uid == meta.uid && meta.version <= known.version
	if current && known.item == nil {
		return nil
	}
	switch w.locker.Look(w.key(meta.uid), version(meta.version)) {
	case Elsewhere:
		delete(w.memory, w.name)
		return nil
	case Settled:
		w.memory[w.name] = memo{uid: meta.uid, version: meta.version}
		return nil
	case Free, Ours:
	}
	if current {
		w.item = *known.item
	} else {
		item, err := w.read()
		if errors.Is(err, errNoItem) {
			delete(w.memory, w.name)
			w.locker.Forget(modelPlugin, w.key("").Item)
			return nil
		}
		if err != nil {
			return err
		}
		w.item = item
		if err := w.verifyHeld(); err != nil {
			return w.conclude(err)
		}
	}
	if w.item.done() {
		w.memory[w.name] = memo{uid: w.item.uid, version: w.item.version}
		return nil
	}
	begun := w.item
	w.memory[w.name] = memo{uid: begun.uid, version: begun.version, item: &begun}
	return w.conclude(w.job())
}

// verifyHeld looks at a lock that was held when the item was read.
func (w *worker) verifyHeld() error {
	if !w.locker.Holds(w.key(w.item.uid)) || w.rereadUnverified {
		return nil
	}
	lock, err := w.acquire()
	if err != nil {
		return err
	}
	return lock.Verify(context.Background())
}

func (w *worker) acquire() (*Lock, error) {
	lock, err := w.locker.Acquire(context.Background(), w.key(w.item.uid))
	if err != nil {
		return nil, err
	}
	if !w.view.Valid() {
		w.blame("no lock without a Lease", "%s works under a lock although its Lease has lapsed", w.id)
	}
	if _, known := w.held[lock]; !known {
		w.held[lock] = w.newest[lock.name.Name]
	}
	return lock, nil
}

// conclude remembers what has come of a job's step.
func (w *worker) conclude(err error) error {
	switch {
	case errors.Is(err, ErrHeld):
		delete(w.memory, w.name)
		return nil
	case err != nil:
		if known, ok := w.memory[w.name]; ok {
			known.version = 0
			w.memory[w.name] = known
		}
		return err
	case w.item.done():
		w.memory[w.name] = memo{uid: w.item.uid, version: w.item.version}
	default:
		item := w.item
		w.memory[w.name] = memo{uid: item.uid, version: item.version, item: &item}
		w.queue[w.name] = true
	}
	return nil
}

// unlock holds the lock of a job on that goes on later, and gives any other one back.
func (w *worker) unlock() {
	known := w.memory[w.name]
	if known.item != nil && !known.item.queued {
		w.locker.Keep(context.Background(), modelPlugin, w.key("").Item)
		return
	}
	settled := ""
	if known.uid != "" && known.item == nil {
		settled = version(known.version)
	}
	w.releasing = true
	if err := w.locker.Release(context.Background(), w.key(known.uid), settled); err != nil {
		w.queue[w.name] = true
	}
	w.releasing = false
}

// job takes the job one step on.
func (w *worker) job() error {
	pickUp := w.item.picked != w.item.job || w.item.queued
	if !w.calm && w.pick(8) == 0 { // there is no slot
		return w.queueUp(pickUp)
	}
	lock, err := w.acquire()
	if err != nil {
		return err
	}
	w.lock = lock
	if err := w.fence(pickUp); err != nil {
		return err
	}
	return w.call()
}

func (w *worker) queueUp(pickUp bool) error {
	if !pickUp || w.item.queued && w.item.picked == w.item.job {
		return nil
	}
	return w.write(enqueue, func(i *modelItem) { i.picked, i.queued = i.job, true })
}

// fence changes the item under a lock that was taken freshly.
func (w *worker) fence(pickUp bool) error {
	var err error
	switch {
	case pickUp:
		err = w.write(fence, func(i *modelItem) { i.picked, i.queued = i.job, false })
	case w.lock.Fenced() || w.noFence:
		return nil
	default:
		err = w.write(fence, func(i *modelItem) { i.noise++ })
	}
	if err == nil {
		w.lock.SetFenced()
	}
	return err
}

// call calls the plugin, which saves its progress now and then, and writes what has come of it.
func (w *worker) call() error {
	w.calling = true
	for range w.pick(3) {
		w.wait()
		if w.lockLost() { // the call is cancelled
			return errOutdated
		}
		if err := w.writeAgain(func(i *modelItem) { i.noise++ }); err != nil {
			return err
		}
	}
	w.wait()
	if !w.calm && w.pick(3) == 0 {
		return nil // the job goes on later
	}
	if err := w.export(); err != nil {
		return err
	}
	return w.writeAgain(func(i *modelItem) { i.finished = i.job })
}

func (w *worker) lockLost() bool {
	select {
	case <-w.lock.Lost():
		return true
	default:
		return false
	}
}

// export writes the item's Secret.
func (w *worker) export() error {
	var before modelSecret
	read := func() error { before = w.secrets[w.item.uid]; return nil }
	if err := w.request(read); err != nil {
		return err
	}
	if !w.exportUnverified {
		if err := w.lock.Verify(context.Background()); err != nil {
			return err
		}
	}
	return w.request(func() error {
		now := w.secrets[w.item.uid]
		if now.version != before.version {
			return errConflict
		}
		mine := w.held[w.lock]
		if now.tenure > mine {
			w.blame("exports", "%s puts its export in the place of a newer one", w.id)
		}
		w.secrets[w.item.uid] = modelSecret{version: w.cluster.next(), tenure: mine}
		return nil
	})
}

// writeAgain writes a change of a job under way, and again if only others have changed what does not concern it.
func (w *worker) writeAgain(change func(*modelItem)) error {
	for range 5 {
		if w.lockLost() {
			return errOutdated
		}
		err := w.write(progress, change)
		if !errors.Is(err, errConflict) {
			return err
		}
		if err := w.readAgain(); err != nil {
			return err
		}
	}
	return errOutdated
}

// readAgain reads the item, and then looks at the lock.
func (w *worker) readAgain() error {
	if w.verifyFirst {
		if err := w.lock.Verify(context.Background()); err != nil {
			return err
		}
	}
	fresh, err := w.read()
	if err != nil {
		return err
	}
	if fresh.uid != w.item.uid || fresh.job != w.item.job || fresh.picked != w.item.picked || fresh.finished != w.item.finished {
		return errOutdated
	}
	if !w.noVerify && !w.verifyFirst {
		if err := w.lock.Verify(context.Background()); err != nil {
			return err
		}
	}
	w.item = fresh
	return nil
}

func (w *worker) read() (item modelItem, err error) {
	err = w.request(func() error {
		found := w.items[w.name]
		if found == nil {
			return errNoItem
		}
		item = *found
		return nil
	})
	return item, err
}

// writing is what a write of an item is for.
type writing int

const (
	enqueue  writing = iota // without a lock
	fence                   // the first of a job under a lock
	progress                // all others
)

// write changes the item on the condition that it is as it was read or written last.
func (w *worker) write(kind writing, change func(*modelItem)) error {
	before, mine := w.item, w.held[w.lock]
	var after modelItem
	err := w.request(func() error {
		now := w.items[before.name]
		if now == nil || now.uid != before.uid || now.version != before.version && !w.unconditional {
			return errConflict
		}
		after = *now
		change(&after)
		after = w.putItem(after)
		w.log("%d: %s writes item %+v under tenure %d", after.version, w.id, after, mine)
		w.written(kind, before.uid, mine)
		return nil
	})
	if err == nil {
		w.item = after
	}
	return err
}

// written checks a write of an item: once it was picked up or taken over under a lock, nobody writes who has had the lock before.
func (w *worker) written(kind writing, uid types.UID, mine int) {
	switch newest := w.fenced[uid]; {
	case kind == enqueue:
	case mine < newest:
		w.blame("one writer", "%s writes under tenure %d, but the item was taken over under %d", w.id, mine, newest)
	case kind == fence:
		w.fenced[uid] = mine
	}
}
