package main

import (
	"context"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1" //nolint:depguard // it does without the sdk
)

// call is one call of the host.
type call struct {
	context.Context

	item *item
	send func(*deployerv1.PluginMessage) error
}

// carryOut does what the item asks for, or says it. An item that asks for nothing succeeds.
func carryOut(c *call) error {
	do := c.item.Spec.Config.Do
	if deed, ok := deeds()[do]; ok {
		return deed(c)
	}
	messages, ok := sayings()[do]
	if !ok {
		return status.Errorf(codes.Unimplemented, "there is no %q", do)
	}
	for _, m := range messages {
		if err := c.send(m); err != nil {
			return err
		}
	}
	return nil
}

// deeds are what is done in calls.
func deeds() map[string]func(*call) error {
	return map[string]func(*call) error{
		"exit":    func(*call) error { os.Exit(7); return nil },
		"panic":   func(*call) error { panic("a secret of the call's") }, //nolint:forbidigo // that is the point
		"panics":  panicElsewhere,
		"hang":    func(*call) error { sleep(); return nil },
		"linger":  linger,
		"endless": endless,
		"fork":    fork,
		"stop":    stop,
		"leak":    leak,
	}
}

// panicElsewhere panics where no server could catch it.
func panicElsewhere(*call) error {
	go func() { panic("a secret of the goroutine's") }() //nolint:forbidigo // that is the point
	sleep()
	return nil
}

// linger goes on, with signs of life, whatever the host wants.
func linger(c *call) error {
	for range time.Tick(time.Second) {
		_ = c.send(heartbeat()) // it fails once the call was cancelled
	}
	return nil
}

// endless reports progress for as long as somebody listens.
func endless(c *call) error {
	for {
		if err := c.send(progress("step", "message")); err != nil {
			return err
		}
	}
}
