"""What a user says to an assistant in one project, and what is asked of it later: written for this set.

All of it is about one greenhouse, so the words of the project tell nothing: they are in every turn.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["SAID", "TOGETHER"]

#: Of each turn what it is known by, and what is asked for later, or nothing where that is asked with others;
#: then what the user says.
_SAID = """
goal: What is my greenhouse project meant to do?
I'm building a controller for my greenhouse in Python. It should read sensors every minute and water
the beds when the soil gets dry.

board: Which computer did I choose for the controller?
The controller runs on a Raspberry Pi 4 with 2 GB of memory that sits in the shed next to the
greenhouse. Is that enough?

short: What did I ask you to leave out when you show code?
When you show me code for the controller, leave out the imports, I know them. Only the functions
that change, please.

soil: What was wrong with two of my soil sensors?
I bought six capacitive soil sensors, and they are read over I2C through a multiplexer. Two of them
always give the same value, why?

air: Which sensor did I put near the door?
For air temperature and humidity I use a BME280 near the door of the greenhouse. How do I average
its readings over five minutes?

light: When does the sensor on the roof stop telling me anything?
There is also a light sensor on the roof, and it saturates at noon. Can the controller see that a
reading is at its limit?

pump: Which pin switches the pump?
The pump is switched by a relay on pin 17. How do I make sure that the relay is off when the program
crashes?

valves: Why may only one valve be open?
There are four valves, one a bed, and only one of them may be open at a time or the pressure drops.
How would you model that?

dry:
I want the beds watered when moisture falls below 30 percent, for two minutes each. How do I stop it
from watering again at once?

night: What happened to the cucumbers?
Watering at night gave me mould on the cucumbers. So the controller must not water between eight in
the evening and six in the morning.

tank: How does the controller know that there is no more rain water?
The rain tank has a float switch that says when it is nearly empty. What should the controller do
with the pump then?

metric: In which units do I want the examples?
Always give me metric units and degrees Celsius in your examples for the greenhouse.

db:
Readings go into SQLite, one table with sensor, time and value. Is an index on sensor and time right
for the dashboard?

keep: How long do I keep raw readings?
I keep raw readings for ninety days, and hourly means for ever. How do I write the job that thins
the table out?

corrupt: How did I lose a week of readings?
After a power cut the readings file was malformed and I lost a week of data. What should I change in
how the controller writes?

dash:
The dashboard is a small Flask app on port 5000 with one chart for each bed. How do I push new
readings to the browser?

chart: When do the charts get slow?
Charts get slow when I show a month, that is 43,000 points a sensor. What do you suggest for the
dashboard?

phone: Who else looks at the dashboard, and on what?
My wife wants to see the dashboard on her phone from the kitchen, so it has to fit a small screen.

login: How did I want to protect the dashboard?
Nobody but us should get into the dashboard. I don't want accounts, one shared password is enough
for the family.

colors: Why should two colours not be used together?
I'm red-green blind, so please don't use those two colours against each other in any chart for the
greenhouse.

alarm:
The controller should send me a message when the temperature is above 38 degrees for ten minutes. I
would like to use Telegram for it.

frost: Why did I get no warning of the frost?
In April there was frost and no warning came, since the sensor had stopped and the last value was
shown. How do I notice a dead sensor?

quiet: Which messages may wake me?
Messages at three in the morning are no use to me unless it freezes. Let everything else wait until
seven.

heater: How strong is the heater?
I added an electric heater of 2 kW on a second relay. It has to switch off by itself when the
controller hangs.

watchdog: What did I compare to deal with a program that hangs?
Which is better against a hanging controller, the hardware watchdog of the Raspberry Pi or
systemd's?

test1: What should stand in for the beds in the tests?
How do I test the watering logic without any hardware? I would like a simulated bed that dries out.

pytest: How should the tests be written?
I use pytest for the controller, never unittest, so write tests as plain functions.

flaky: Which test fails now and then?
My test of the five minute mean fails once in a while on the build server. It sleeps for real, could
that be it?

clock: What did I put in the place of sleeping?
I replaced sleeping by a clock that the tests can move. Does the scheduler of the controller need to
know of it?

types: Which check must the code pass before you give it to me?
Please check all code for the controller against mypy in strict mode before you give it to me.

sched: What was the trouble with the single loop?
At first I ran everything in one loop with a sleep of a minute. Reading a slow sensor delays the
valves, so what else is there?

asyncio: What goes wrong when one task fails?
I moved the controller to asyncio with one task a sensor. One failing task now takes all the others
down.

lock: What did two tasks do at the same time?
Two tasks opened a valve at the same moment and the pressure dropped. Where do I put the lock?

retry: Which error comes from the bus?
The I2C bus gives an OSError with errno 121 about twice an hour. How often should the controller try
again?

config: Where are the limits of the beds written down?
The limits for each bed are in a TOML file now. How do I reload it without a restart of the
controller?

bad: What came of a typo in the settings?
With a typo in that file the controller watered bed three all day. I want it refused with a message
that names the line.

git:
The code lives in a private repository, and the Pi pulls it each night. Is that a safe way to deploy
a controller?

rollback: What broke the valves while I was at work?
Yesterday's deployment broke the valves, and I was at work. I want the old version back by itself
when the new one does not start.

logs: What filled up the card?
Log files filled the SD card. How do I limit what the controller logs to 50 MB?

debug: How much should a single bed log while I debug?
While I debug the greenhouse I'd like one bed to log everything, and the others only warnings.

sd: What do I boot from, and why?
The SD card died after eight months. I boot from an SSD over USB now, does the database need other
settings there?

backup: Where should copies of the data go each week?
Every Sunday the database should be copied to the NAS, while the controller goes on writing.

weather: Which service tells me about rain?
I'd like to skip watering when rain is forecast. Open-Meteo gives hourly forecasts without a key,
how do I read it?

offline: What is unreliable in the garden?
The wireless network in the garden is down for hours at times. The controller must do without the
forecast then.

et: Which formula had somebody told me about?
Somebody told me about evapotranspiration, the Penman formula. Is that worth it for four beds under
glass?

calib: What do the soil sensors give in water?
The soil sensors have to be calibrated, dry air gives 3.1 volts and water 1.4. How do I turn volts
into percent?

drift: Which bed drifts?
Bed two reads five percent higher each month though nothing changed. Can the controller correct a
drift like that?

toms: What grows in bed four?
Tomatoes are in beds one and two, cucumbers in three, and herbs in four. Each plant wants other
limits for moisture.

fert: How much fertiliser does a bed get?
I plan a second pump for liquid fertiliser, once a week, 20 millilitres a bed. How do I dose that
with a pump that gives 1.2 millilitres a second?

window: What opens the window, and how long does it take?
A linear motor opens the roof window, and takes 40 seconds for it. How do I know how far it is open
after a crash?

wind: From whom do I get the wind speed?
The window must close when there is wind above 12 metres a second. The station of my neighbour
publishes that over MQTT.

mqtt: Where does the broker run?
I'd rather have all of the controller talk MQTT, with the broker on the NAS. What is a good layout
for the topics?

voice: What does my daughter want to ask?
My daughter asks the speaker in the kitchen how warm the greenhouse is. How would the answer get
there?

power: How much power does everything take without heating?
The whole greenhouse takes 9 watts without heater. With a panel of 100 watts and a battery, would it
run through November?

sleepy: Why will the computer not sleep?
To save power the Pi could sleep between readings. But then the dashboard would not answer, so I
think I won't.

cost:
So far I spent 430 euros on the greenhouse controller, 180 of that on valves. Where could I have
saved?

friend: Who wants to have the same controller?
A friend of mine, Tariq, wants the same controller for his orchard with twelve zones. What is
written too much for four beds?

pkg: What did I plan to put behind an interface?
So I'd make a package of it, with the hardware behind an interface. What goes into the interface?

licence: What did I want of a licence?
I want to publish the controller under a licence that lets people use it at home, and sell it only
if they share changes.

docs: For whom should the documentation be written?
Write documentation for people who have never used a terminal, with one picture a step.

dry2:
30 percent was too late for the tomatoes, so the controller waters below 40 percent now, for three
minutes.

db2:
SQLite locks were a nuisance with the dashboard, so the readings are in PostgreSQL on the NAS since
Sunday.

dash2:
I rewrote the dashboard in FastAPI, it listens on port 8000 now. The charts are the same.

alarm2:
Telegram was blocked at work. The alarms of the greenhouse come as e-mail now, and from 35 degrees
on.

git2:
The Pi pulls no code any more, the build server copies a wheel to it over SSH after the tests.

cost2:
With the new valves and the SSD the greenhouse has cost me 610 euros by now.
"""

#: Questions about several turns: the kind of question and the turns, and its text.
_TOGETHER = """
update: dry dry2
Below which moisture does the controller water the beds?

update: db db2
Which database has my readings?

update: dash dash2
On which port is the dashboard?

update: alarm alarm2
How do I get alarms, and from which temperature on?

update: git git2
How does new code get onto the Raspberry Pi?

update: cost cost2
How much have I spent on the greenhouse?

order: soil air light frost calib
In which order did I bring up the sensors of the greenhouse? Name four of them.

order: dry night tank weather dry2
List the order in which I talked about watering over our conversations.

order: heater window
What did I bring up first, the heater or the window?

order: test1 asyncio
Did I ask about testing before or after asyncio?

order: phone voice friend
In which order did I mention people of my family and friends?

order: db keep corrupt sd db2
Walk me through how storing of readings changed, in order.

order: calib drift
Which came first, the calibration or the drift of the sensors?

order: corrupt frost flaky rollback logs sd
In what order did I tell you about things that broke?

order: sched asyncio lock clock
List in order how I changed the way the program waits and runs its tasks.

order: alarm frost quiet alarm2
How did the alarms develop, from the first to the last?

order: git rollback git2
What did I ask first about deployment, and what after that?

order: short metric colors pytest types
In which order did I set rules for how you answer?

theme: dash chart phone login colors dash2
Summarise everything about the dashboard.

theme: pump valves tank lock fert
Give me a summary of what I said about pumps and valves.

theme: heater power sleepy corrupt
Summarise all about power and electricity.

theme: pump heater watchdog asyncio
Give me an overview of how the controller is kept from hanging and crashing.

theme: test1 pytest flaky clock
What did we discuss about tests?

theme: night toms dry2
Summarise what I told you of each plant.

theme: weather offline et wind frost
Everything about the weather, please.

theme: logs debug
All that was said about logging.

theme: friend pkg licence docs
Summarise the plans to share the controller with others.

theme: corrupt backup keep sd
What have I said about backups and lost data?

theme: board soil air light pump sd window
Give me an overview of the hardware that I use.

theme: config bad toms dry2
What did I tell you about settings and limits?

instruction: short pytest types
Which rules did I give you for code?

instruction: colors
Show me a chart of the last week as I like it.

instruction: pytest
Give me an example of a test for the heater.

instruction: metric
Give me an example with a temperature.

instruction: short types
Show me the function that opens a valve.

count: soil air light tank
How many sensors do I have in the greenhouse, of all kinds?

count: pump heater valves fert window
How many relays and motors does the controller switch?

count: phone voice
How many members of my family use it?

count: corrupt sd logs
How many times did I lose something because of the SD card or the power?
"""


def _read(text: str) -> Iterator[tuple[str, str, str]]:
    """Of each paragraph what stands before the colon, what stands behind it, and the other lines."""
    for paragraph in text.strip().split("\n\n"):
        first, *rest = paragraph.split("\n")
        known, _, asked = first.partition(":")
        yield known, asked.strip(), " ".join(rest)


#: The name of a turn, the later question or "", and the words of the user.
SAID = tuple(_read(_SAID))

#: The kind of a question, the turns that answer it, and the question.
TOGETHER = tuple(_read(_TOGETHER))
