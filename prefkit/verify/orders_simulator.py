"""An example of a simulator to copy: a shop's orders, refunds and messages to customers.

The state:

    {
      "now": "2026-03-01",
      "customers": {"4": {"name": "Ada"}},
      "orders": {"17": {"customer": 4, "total": 59.9, "status": "delivered", "refunded": 0}},
      "refunds": [],
      "messages": []
    }

Objects whose things have a number are keyed by it, so that a wanted end state can say what becomes of one order and nothing of the others.
Amounts of money are rounded to cents.
"""

from __future__ import annotations

from typing import Any

from prefkit.verify.simulator import Simulator, ToolError, tool

_NUMBER = {"type": "integer", "minimum": 1}
_TABLES = {"customers": dict, "orders": dict, "refunds": list, "messages": list}


class OrdersSimulator(Simulator):
    """Orders may be looked up, cancelled before they are shipped, and refunded once they are delivered; customers may be written to."""

    def check_state(self) -> None:
        for name, kind in _TABLES.items():
            if not isinstance(self.state.setdefault(name, kind()), kind):
                raise ValueError(f"{name} must be {'an object' if kind is dict else 'a list'}")
        for number, order in self.state["orders"].items():
            if not isinstance(order, dict) or not {"customer", "total", "status"} <= order.keys():
                raise ValueError(f"order {number} needs customer, total and status")
            order.setdefault("refunded", 0)

    @tool("The numbers of a customer's orders.", {"customer": _NUMBER})
    def list_orders(self, customer: int) -> list[int]:
        self._customer(customer)
        return sorted(int(number) for number, order in self.state["orders"].items() if order["customer"] == customer)

    @tool("One order: customer, total, status, what of it is refunded.", {"order": _NUMBER})
    def get_order(self, order: int) -> dict[str, Any]:
        return self._order(order)

    @tool("Cancel an order that is not shipped yet.", {"order": _NUMBER})
    def cancel_order(self, order: int) -> str:
        found = self._order(order)
        if found["status"] not in ("open", "paid"):
            raise ToolError(f"order {order} is {found['status']} and cannot be cancelled")
        found["status"] = "cancelled"
        return f"order {order} is cancelled"

    @tool(
        "Refund a delivered order, all that is left of it or a part.",
        {"order": _NUMBER, "amount": {"type": "number", "exclusiveMinimum": 0}},
    )
    def refund_order(self, order: int, amount: float | None = None) -> dict[str, Any]:
        found = self._order(order)
        if found["status"] != "delivered":
            raise ToolError(f"order {order} is {found['status']} and cannot be refunded")
        left = round(found["total"] - found["refunded"], 2)
        given = left if amount is None else round(amount, 2)
        if not 0 < given <= left:
            raise ToolError(f"of order {order} {left} can be refunded, not {given}")
        found["refunded"] = round(found["refunded"] + given, 2)
        if found["refunded"] == found["total"]:
            found["status"] = "refunded"
        refund = {"number": len(self.state["refunds"]) + 1, "order": order, "amount": given}
        self.state["refunds"].append(refund)
        return refund

    @tool("Write to a customer.", {"customer": _NUMBER, "text": {"type": "string", "minLength": 1, "maxLength": 2000}})
    def send_message(self, customer: int, text: str) -> str:
        self._customer(customer)
        self.state["messages"].append({"customer": customer, "text": text})
        return "sent"

    def _order(self, number: int) -> dict[str, Any]:
        """Raises ToolError where there is none."""
        if str(number) not in self.state["orders"]:
            raise ToolError(f"there is no order {number}")
        return self.state["orders"][str(number)]

    def _customer(self, number: int) -> None:
        """Raises ToolError where there is none."""
        if str(number) not in self.state["customers"]:
            raise ToolError(f"there is no customer {number}")
