package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"os"
	"sync"
)

// hashedFile is a new file of known size that computes the checksums of its blocks while it is written. A block is
// hashed as long as its parts are written in order, when the data is still in the cache; otherwise the block has to be
// read again. Several goroutines may write to different positions.
type hashedFile struct {
	*os.File
	size   int64
	mu     sync.Mutex
	blocks []blockSum
}

// blockSum is the checksum of one block so far.
type blockSum struct {
	done    int64 // leading bytes of the block that are hashed
	hash    hash.Hash
	busy    bool // a goroutine is hashing
	spoiled bool // hashed bytes have been overwritten
}

// newHashedFile wraps an empty file that will have size bytes.
func newHashedFile(f *os.File, size int64) *hashedFile {
	return &hashedFile{File: f, size: size, blocks: make([]blockSum, blocksOf(size))}
}

// blocksOf is the number of blocks, at least 1, in a file of that many bytes.
func blocksOf(size int64) int64 { return (size-1)/BlockBytes + 1 }

// WriteAt writes part at offset at, within the file's size, and hashes what continues a block. When a block is
// complete, the system starts writing it to disk.
func (f *hashedFile) WriteAt(part []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(part, at)
	if err != nil {
		return n, err
	}

	for len(part) > 0 {
		block := at / BlockBytes
		length := min(int64(len(part)), (block+1)*BlockBytes-at)
		if f.hashPart(&f.blocks[block], at-block*BlockBytes, part[:length], f.blockBytes(block)) {
			startWriteback(f.File, block*BlockBytes, f.blockBytes(block))
		}
		part = part[length:]
		at += length
	}
	return n, nil
}

// blockBytes returns the size of a block, which may be smaller if it is the last one.
func (f *hashedFile) blockBytes(block int64) int64 { return min(BlockBytes, f.size-block*BlockBytes) }

// hashPart hashes part, which has been written at offset at of the block b with size bytes, if it directly follows what
// has been hashed of the block and no other goroutine is hashing there. Otherwise the block is read again in the end. A
// part that overwrites hashed bytes spoils the block for good. The result is whether the block is complete now.
func (f *hashedFile) hashPart(b *blockSum, at int64, part []byte, size int64) bool {
	f.mu.Lock()

	b.spoiled = b.spoiled || at < b.done
	if at != b.done || b.busy || b.spoiled {
		f.mu.Unlock()
		return false
	}

	// Hash without holding the lock; busy keeps other goroutines away from the block.
	b.busy = true
	if b.hash == nil {
		b.hash = sha256.New()
	}
	f.mu.Unlock()
	b.hash.Write(part)

	f.mu.Lock()
	defer f.mu.Unlock()
	b.busy = false
	b.done += int64(len(part))
	return b.done == size
}

// blockSums returns the checksums of the blocks in hexadecimal, and "" for blocks that have to be read again.
func (f *hashedFile) blockSums() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, len(f.blocks))
	for i := range f.blocks {
		if b := &f.blocks[i]; b.done == f.blockBytes(int64(i)) && !b.spoiled {
			out[i] = hex.EncodeToString(b.hash.Sum(nil))
		}
	}
	return out
}
