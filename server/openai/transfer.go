package openai

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/auth"
	"weir/engine"
	"weir/internal/jsontext"
	"weir/kvcache"
	"weir/kvtransfer"
	"weir/server/failure"
	"weir/server/transport"
)

// Transfer says with whom the model exchanges the KV blocks of prompts. The zero value is nobody.
type Transfer struct {
	Node            *kvtransfer.Node // that the engine has for its Offload; nil: there is none
	Prefill, Decode bool             // prompts are computed for others; others compute prompts for this server
	EngineID        string           // what partners are told of this server
	Host            string           // where they reach it
	Port            int
}

// transferParams are kv_transfer_params, in the words of vLLM's connectors and proxies.
type transferParams struct {
	RemoteDecode  bool                `json:"do_remote_decode"`
	RemotePrefill bool                `json:"do_remote_prefill"`
	EngineID      *string             `json:"remote_engine_id"`
	BlockIDs      jsontext.RawMessage `json:"remote_block_ids"`
	Host          *string             `json:"remote_host"`
	Port          *int                `json:"remote_port"`
	RequestID     *string             `json:"remote_request_id"`

	malformed bool
}

// transfers reads the kv_transfer_params of a request; nil: they have no effect, because there are none, or no partners.
func (m *Model) transfers(raw api.Raw) *transferParams {
	if raw == nil || m.Transfer.Node == nil {
		return nil
	}
	p := &transferParams{}
	if err := jsontext.Decode(raw, p); err != nil {
		return &transferParams{malformed: true}
	}
	p.BlockIDs = nil // blocks go by their content
	for _, text := range []**string{&p.EngineID, &p.Host, &p.RequestID} {
		if *text != nil {
			own := strings.Clone(**text) // or it would keep the whole body in memory
			*text = &own
		}
	}
	return p
}

func errTransfer() *api.Error {
	return failure.BadRequest("kv_transfer_params", "kv_transfer_params must have booleans in do_remote_decode and do_remote_prefill, strings in remote_engine_id, remote_request_id and remote_host, and a whole number in remote_port.")
}

// settleWait is how long an answer is held back until the blocks of its prompt have been copied for a partner.
const settleWait = 2 * time.Second

// moving is what a request that is being computed has to do with a partner.
type moving struct {
	model *Model
	lease *kvtransfer.Lease // nil: nothing is held for a partner
}

// move asks the partner of a request for what it holds of the prompt, and prepares to hold that prompt for the next one. It waits for
// the partner for a bounded time. What a key without the right to it says has no effect.
func (s *Service) move(c *transport.Call, m *Model, p *prepared) error {
	t := p.transfer
	switch {
	case t == nil || len(p.requests) != 1 || p.requests[0].Prompt != nil:
		return nil
	case c.Who.Rights&auth.Transfer == 0:
		s.log.Debug("kv_transfer_params ignored: the key has not the right transfer", "id", p.reply.meta.ID, "key", c.Who.Key)
		return nil
	case t.malformed:
		return errTransfer()
	}
	r := &p.requests[0]
	keys := m.Engine.PrefixKeys(r.Tokens, r.Salt)
	if len(keys) == 0 {
		return nil
	}
	if t.RemotePrefill && m.Transfer.Decode {
		s.bring(c, m, p, keys)
	}
	if t.RemoteDecode && m.Transfer.Prefill && !p.reply.stream { // a stream has no field that says where the blocks are
		if lease := m.Transfer.Node.Lease(keys); lease != nil {
			p.reply.moving = &moving{m, lease}
			c.AtEnd(func() {
				if p.reply.moving != nil { // it was not answered
					lease.End()
				}
			})
		}
	}
	return nil
}

// bring asks the partner of a request for what it holds of the prompt.
func (s *Service) bring(c *transport.Call, m *Model, p *prepared, keys []kvcache.Key) {
	t := p.transfer
	if t.Host == nil || t.Port == nil || t.RequestID == nil {
		return
	}
	addr := net.JoinHostPort(*t.Host, strconv.Itoa(*t.Port))
	lease, ok := kvtransfer.ParseLease(*t.RequestID)
	if !ok || !m.Transfer.Node.Knows(addr) {
		s.log.Debug("kv_transfer_params ignored: the address is not one of --kv-transfer-peers, or the number not one of a server like this", "id", p.reply.meta.ID)
		return
	}
	offer, err := m.Transfer.Node.Offer(c.Context(), addr, lease, keys)
	if err != nil {
		s.log.Debug("a prompt is computed here, because its partner does not answer", "id", p.reply.meta.ID, "error", err)
		return
	}
	p.requests[0].Outside = engine.Outside{External: offer.Copies() > 0, Loaded: offer.End}
	c.AtEnd(offer.End)
}

// settle says where a partner finds the blocks of the prompt of a request that has been computed; nil: nowhere.
func (r *reply) settle(ctx context.Context) api.Raw {
	if r.moving == nil {
		return nil
	}
	t, lease := &r.moving.model.Transfer, r.moving.lease
	ctx, done := context.WithTimeout(ctx, settleWait)
	defer done()
	_ = r.moving.model.Engine.CopiesOut(ctx) // what is not copied then is computed by the partner
	blocks := lease.Settle()
	r.moving = nil
	if blocks == 0 {
		lease.End()
		return nil
	}
	dst := append([]byte(nil), `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[`...)
	for i := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(i), 10)
	}
	dst = append(dst, `],"remote_engine_id":`...)
	dst = api.AppendString(dst, t.EngineID)
	dst = append(dst, `,"remote_request_id":`...)
	dst = api.AppendString(dst, lease.ID())
	dst = append(dst, `,"remote_host":`...)
	dst = api.AppendString(dst, t.Host)
	dst = append(dst, `,"remote_port":`...)
	dst = strconv.AppendInt(dst, int64(t.Port), 10)
	return append(dst, `,"tp_size":1}`...)
}
