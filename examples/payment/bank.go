package main

import (
	"context"
	"fmt"
	"sync"
)

// Bank stands for a payment provider: a system that is not in the database, so
// that no transaction spans both. Like the real ones it takes a key with each
// charge, and answers a repeated key with what it did the first time.
type Bank struct {
	mu      sync.Mutex
	byKey   map[string]string
	charges int
	cents   int
}

// Charge takes the money, once for each key, and returns the receipt.
func (b *Bank) Charge(ctx context.Context, key string, cents int) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if receipt, done := b.byKey[key]; done {
		return receipt, nil
	}
	if b.byKey == nil {
		b.byKey = map[string]string{}
	}
	b.charges++
	b.cents += cents
	receipt := fmt.Sprintf("R-%d", b.charges)
	b.byKey[key] = receipt
	return receipt, nil
}

// Charges is how often money was taken, and how much in all.
func (b *Bank) Charges() (n, cents int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.charges, b.cents
}
